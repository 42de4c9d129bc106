"""Has somebody else compute a serving again, for the ledger: RECOMPUTE to RECOMPUTED.

Who may: a holder of the expert in another domain than the worker's and than those of
all in `avoid`, and past probation; by chance, so that nobody can choose its judge.
It is asked by a CANARY with the rows themselves, which does not say what the worker
gave. If it says nothing in time, another one is asked, three in all. Where there is
none, a backbone that lists the model and has the expert gives its own word; but one
backbone in an audit: they are made for nothing, and whoever copies a manifest lists it.
If nobody can: an answer without a hash, which is nobody's fault.

Each RECOMPUTE is answered once; one that is repeated meanwhile goes on. At most 64 are
under way, four with one referee: it would turn more away, where few can judge. Others
wait until one of those is free, for 30 s at most. Pure but for the random generator;
times are monotonic seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Canary, CanaryAnswer, Recompute, Recomputed
from p2pmoe.market.canary_round import HASH_BYTES
from p2pmoe.market.outgoing import Send
from relay.keys import PeerId

__all__ = ["Candidate", "Candidates", "Referee"]

_MAX_UNDER_WAY = 64
_MAX_TRIES = 3
_MAX_EACH = 4  # half of what waits with a referee: canaries come there, too
_WAIT_S = 30.0
_WITHIN_S = 15.0
_GRACE_S = 3.0
_PEER_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A holder of the expert. `is_known`: it is past probation."""

    peer: PeerId
    domain: str
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Where candidates and domains are looked up.

    holders, backbones: who has an expert of a manifest now. is_backbone: whether a peer
    lists any model. domain: a key's, the last one known; "" if none is.
    """

    holders: Callable[[bytes, ExpertId], Sequence[Candidate]]
    backbones: Callable[[bytes, ExpertId], Sequence[PeerId]]
    is_backbone: Callable[[PeerId], bool]
    domain: Callable[[PeerId], str]


@dataclass(slots=True, kw_only=True, eq=False)
class _Question:
    """One RECOMPUTE under way; `number` is that of the canary that is out.

    referee: None while it waits for one that is free, until `waits_until` at most.
    """

    asked: Recompute
    ledger: PeerId
    waits_until: float
    number: int = 0
    referee: PeerId | None = None
    until: float = 0.0
    tried: set[PeerId] = field(default_factory=set)


class Referee:
    """All questions of the ledger under way."""

    def __init__(self, candidates: Candidates, random: Random) -> None:
        """Begin with none."""
        self._candidates = candidates
        self._random = random
        self._questions: dict[int, _Question] = {}  # by the ledger's number
        # Above those of canaries, which have 48 bits and count from there.
        self._next_number = 1 << 56 | random.getrandbits(40)

    def __len__(self) -> int:
        """Return how many questions are under way."""
        return len(self._questions)

    def asked(self, ledger: PeerId, asked: Recompute, now: float) -> list[Send]:
        """Take a question of the ledger."""
        if asked.number in self._questions:
            return []
        if len(self._questions) >= _MAX_UNDER_WAY or len(asked.expert) != 1:
            reason = "too many are under way" if asked.expert else "no expert is named"
            return [_unanswered(ledger, asked, reason)]
        question = _Question(asked=asked, ledger=ledger, waits_until=now + _WAIT_S)
        self._questions[asked.number] = question
        return self._next(question, now)

    def answered(self, peer: PeerId, answer: CanaryAnswer, now: float) -> list[Send]:
        """Take a referee's answer; [] if none was asked by this number."""
        question = self._find(peer, answer.number)
        if question is None:
            return []
        if answer.experts != question.asked.expert or len(answer.hashes) != HASH_BYTES:
            sends = self._next(question, now)  # it could not, for some reason
            return [*sends, *self._go_on(now)]
        del self._questions[question.asked.number]
        said = Recomputed(
            number=question.asked.number,
            out_hash=bytes(answer.hashes),
            referee=peer,
            reason="",
        )
        return [Send(question.ledger, said), *self._go_on(now)]

    def lost(self, peer: PeerId, now: float) -> list[Send]:
        """A referee is gone: ask the next one."""
        waiting = [q for q in self._questions.values() if q.referee == peer]
        sends = [send for q in waiting for send in self._next(q, now)]
        return [*sends, *self._go_on(now)]

    def tick(self, now: float) -> list[Send]:
        """Ask somebody else where a referee has said nothing in time."""
        late = [q for q in self._questions.values() if q.until <= now]
        sends = [send for q in late for send in self._next(q, now)]
        return [*sends, *self._go_on(now)] if late else []

    def next_due(self) -> float | None:
        """Return when the next referee is late."""
        return min((q.until for q in self._questions.values()), default=None)

    def _find(self, peer: PeerId, number: int) -> _Question | None:
        for question in self._questions.values():
            if question.number == number and question.referee == peer:
                return question
        return None

    def _go_on(self, now: float) -> list[Send]:
        """Ask for those that wait, as far as referees are free."""
        waiting = [q for q in self._questions.values() if q.referee is None]
        return [send for q in waiting for send in self._next(q, now)]

    def _next(self, question: _Question, now: float) -> list[Send]:
        """Ask the next referee, wait for one, or say that there is none."""
        question.referee = None
        choice = self._choice(question)
        free = [peer for peer in choice if self._n_with(peer) < _MAX_EACH]
        if choice and not free and now < question.waits_until:
            question.until = question.waits_until
            return []
        if not free:
            del self._questions[question.asked.number]
            reason = "no answer" if question.tried else "no other holder"
            reason = "all who could are busy" if choice else reason
            return [_unanswered(question.ledger, question.asked, reason)]
        referee = self._random.choice(free)
        self._next_number += 1
        question.number, question.referee = self._next_number, referee
        question.until = now + _WITHIN_S + _GRACE_S
        question.tried.add(referee)
        return [Send(referee, _canary(question))]

    def _n_with(self, peer: PeerId) -> int:
        return sum(question.referee == peer for question in self._questions.values())

    def _choice(self, question: _Question) -> list[PeerId]:
        """Return who may be asked now or when they are free."""
        if len(question.tried) >= _MAX_TRIES:
            return []
        asked, look = question.asked, self._candidates
        barred = {asked.worker, *_avoided(asked), *question.tried}
        domains = {look.domain(peer) for peer in (asked.worker, *_avoided(asked))}
        (expert,) = asked.expert
        holders = [
            each.peer
            for each in look.holders(asked.manifest_hash, expert)
            if each.is_known and each.peer not in barred and each.domain not in domains
        ]
        if holders:
            return holders
        if any(map(look.is_backbone, _avoided(asked))):
            return []
        return [
            peer
            for peer in look.backbones(asked.manifest_hash, expert)
            if peer not in barred
        ]


def _avoided(asked: Recompute) -> list[PeerId]:
    raw = bytes(asked.avoid)
    return [
        PeerId(raw[at : at + _PEER_BYTES]) for at in range(0, len(raw), _PEER_BYTES)
    ]


def _canary(question: _Question) -> Canary:
    asked = question.asked
    return Canary(
        number=question.number,
        manifest_hash=asked.manifest_hash,
        experts=asked.expert,
        profile=asked.profile,
        n_rows=asked.n_rows,
        within_ms=int(1000 * _WITHIN_S),
        seed=b"",
        rows=bytes(asked.rows),
    )


def _unanswered(ledger: PeerId, asked: Recompute, reason: str) -> Send:
    said = Recomputed(number=asked.number, out_hash=b"", referee=b"", reason=reason)
    return Send(ledger, said)
