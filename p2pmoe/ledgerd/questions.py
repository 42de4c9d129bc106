"""Audits under way: whom to ask next, what the answers come to. Sans-I/O.

    waiting -> OPEN to the backbone -> OPENED -> RECOMPUTE to the market -> RECOMPUTED
    -> decided, or RECOMPUTE again: another referee, up to three words

Contract: every method returns what is to be sent and what was found, and the caller
does it. A backbone has a minute to show the rows, asked again every few seconds; then,
or with other rows than the leaf's, the audit is `unopened`. Who could not be asked
within seconds of the draw is not to blame, nor is a backbone whose voucher came late:
`unasked`. The market has a while for each word; without one the audit is `unjudged`. So
many audits are under way at once, and so many bytes of rows are held; the others wait,
and pairs of worker and backbone take turns: none can crowd another's audits out.
An answer counts from whom it was asked of, once. Times are the caller's, in seconds.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from ledger.beacon_rows import LATE_US, OpenAudit
from ledger.beacon_verdicts import Finding
from ledger.beacon_words import MAX_WORDS, AuditState, Word, weigh_words
from ledger.keys import KEY_BYTES
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.audits import Open, Opened, Recompute, Recomputed
from relay.keys import PeerId

__all__ = ["Act", "Ask", "Questions"]

ASK_WITHIN_S = 20.0  # of the draw
OPEN_AGAIN_S = 5.0
OPEN_WITHIN_S = 60.0
JUDGE_AGAIN_S = 20.0
JUDGE_WITHIN_S = 90.0
MAX_UNDER_WAY = 128
MAX_JUDGED = 48
MAX_OF_BACKBONE = 16
MAX_HELD_BYTES = 64 << 20
MAX_WAITING = 20_000
_HASH_BYTES = 16
_NUMBERS = MAX_WORDS + 1  # of one audit's RECOMPUTEs: number = audit * 4 + words so far
_ROWS_OF_ANOTHER = "other rows than were sent"
_REASON_CHARS = 120


@dataclass(frozen=True, slots=True)
class Ask:
    """A message to send."""

    peer: PeerId
    message: Open | Recompute


Act = Ask | Finding
_Pair = tuple[bytes, bytes]  # worker, backbone


@dataclass(slots=True, kw_only=True)
class _Question:
    """One audit under way."""

    audit: OpenAudit
    since: float  # of this step
    sent_at: float
    rows: bytes = b""
    words: tuple[Word, ...] = field(default=())


class Questions:
    """What is being asked about which serving."""

    def __init__(self, market: PeerId) -> None:
        """Begin with nothing to ask; `market` finds the referees."""
        self._market = market
        self._waiting: OrderedDict[_Pair, deque[tuple[OpenAudit, float]]]
        self._waiting = OrderedDict()
        self._known: set[int] = set()  # waiting or under way, by audit
        self._opening: dict[int, _Question] = {}
        self._opened: deque[_Question] = deque()  # rows are here; no referee asked yet
        self._judging: dict[int, _Question] = {}
        self._held_bytes = 0

    def __len__(self) -> int:
        """Return how many audits are not decided."""
        return len(self._known)

    def add(
        self, audits: Iterable[OpenAudit], now_us: int, now: float
    ) -> list[Finding]:
        """Take drawn audits; return those that it is too late to ask about."""
        found = []
        for audit in audits:
            if audit.id in self._known:
                continue
            if now_us - audit.posted_us > LATE_US or len(self._known) >= MAX_WAITING:
                found.append(_unasked(audit, "drawn too long ago"))
                continue
            self._known.add(audit.id)
            pair = (audit.worker, audit.backbone)
            self._waiting.setdefault(pair, deque()).append((audit, now))
        return found

    def due(self, now: float) -> list[Act]:
        """Return what is to be asked now, for the first time or again, or given up."""
        acts = self._overdue(now)
        acts += self._begin(now)
        acts += self._judge(now)
        return acts

    def opened(self, peer: PeerId, message: Opened, now: float) -> list[Act]:
        """Take a backbone's answer."""
        question = next(
            (
                each
                for each in self._opening.values()
                if each.audit.voucher_hash == message.voucher_hash
                and each.audit.leaf.serving == message.serving
                and each.audit.backbone == peer
            ),
            None,
        )
        if question is None:
            return []
        del self._opening[question.audit.id]
        leaf = question.audit.leaf
        if sha256(message.rows).digest()[:_HASH_BYTES] != leaf.x_hash:
            reason = _ROWS_OF_ANOTHER if message.rows else _clean(message.reason)
            return [self._end(question, _unopened(question.audit, reason))]
        question.rows = message.rows
        self._held_bytes += len(message.rows)
        self._opened.append(question)
        return self._judge(now)

    def recomputed(self, message: Recomputed, now: float) -> list[Act]:
        """Take the market's answer: one referee's word, or that there is none."""
        question = self._judging.get(message.number // _NUMBERS)
        if question is None or message.number != _number(question):
            return []
        audit = question.audit
        word = _word(message, question)
        if word is None:
            reason = _clean(message.reason) or "no word of another referee"
            return [self._end(question, self._unjudged(question, reason))]
        question.words = (*question.words, word)
        state = weigh_words(question.words, audit.leaf.out_hash)
        if state is AuditState.OPEN:
            question.since = now
            return [self._ask_market(question, now)]
        is_failed = state is AuditState.FAILED
        found = Finding(
            audit=audit.id,
            state=state,
            words=question.words,
            opened=question.rows if is_failed else b"",
            detail="three different words" if state is AuditState.UNJUDGED else "",
        )
        return [self._end(question, found), *self._judge(now)]

    def _begin(self, now: float) -> list[Act]:
        """Ask backbones for rows, as many as may be under way, pair by pair."""
        acts: list[Act] = []
        n_of = Counter(each.audit.backbone for each in self._opening.values())
        n_skipped = 0  # pairs in a row whose backbone is asked enough
        while self._has_room() and n_skipped < len(self._waiting):
            pair, waiting = self._waiting.popitem(last=False)
            audit, added = waiting[0]
            if now - added > ASK_WITHIN_S:
                waiting.popleft()
                self._known.discard(audit.id)
                acts.append(_unasked(audit, "too many audits at once"))
            elif n_of[audit.backbone] >= MAX_OF_BACKBONE:
                n_skipped += 1
            else:
                waiting.popleft()
                n_skipped = 0
                n_of[audit.backbone] += 1
                question = _Question(audit=audit, since=now, sent_at=now)
                self._opening[audit.id] = question
                acts.append(_ask_backbone(question, now))
            if waiting:
                self._waiting[pair] = waiting
        return acts

    def _has_room(self) -> bool:
        n = len(self._opening) + len(self._opened) + len(self._judging)
        return n < MAX_UNDER_WAY and self._held_bytes < MAX_HELD_BYTES

    def _judge(self, now: float) -> list[Act]:
        """Ask the market about rows that are here, so many at once."""
        acts: list[Act] = []
        while self._opened and len(self._judging) < MAX_JUDGED:
            question = self._opened.popleft()
            question.since = now
            self._judging[question.audit.id] = question
            acts.append(self._ask_market(question, now))
        return acts

    def _overdue(self, now: float) -> list[Act]:
        """Give up, or ask again."""
        acts: list[Act] = []
        for question in list(self._opening.values()):
            if now - question.since >= OPEN_WITHIN_S:
                acts.append(self._end(question, _unopened(question.audit, "no answer")))
            elif now - question.sent_at >= OPEN_AGAIN_S:
                acts.append(_ask_backbone(question, now))
        for question in list(self._judging.values()):
            if now - question.since >= JUDGE_WITHIN_S:
                found = self._unjudged(question, "no answer of the market")
                acts.append(self._end(question, found))
            elif now - question.sent_at >= JUDGE_AGAIN_S:
                acts.append(self._ask_market(question, now))
        return acts

    def _ask_market(self, question: _Question, now: float) -> Ask:
        question.sent_at = now
        audit = question.audit
        return Ask(
            self._market,
            Recompute(
                number=_number(question),
                manifest_hash=audit.manifest_hash,
                expert=(ExpertId(audit.leaf.layer, audit.leaf.expert),),
                profile=audit.profile,
                n_rows=audit.leaf.rows,
                worker=PeerId(audit.worker),
                avoid=b"".join(word.referee for word in question.words),
                rows=question.rows,
            ),
        )

    def _unjudged(self, question: _Question, reason: str) -> Finding:
        return Finding(
            audit=question.audit.id,
            state=AuditState.UNJUDGED,
            words=question.words,
            detail=reason,
        )

    def _end(self, question: _Question, found: Finding) -> Finding:
        """Forget a question; what it came to is the caller's."""
        number = question.audit.id
        self._known.discard(number)
        self._opening.pop(number, None)
        if self._judging.pop(number, None) is not None:
            self._held_bytes -= len(question.rows)
        return found


def _ask_backbone(question: _Question, now: float) -> Ask:
    question.sent_at = now
    audit = question.audit
    return Ask(
        PeerId(audit.backbone),
        Open(
            voucher_hash=audit.voucher_hash,
            tab=audit.leaf.tab,
            serving=audit.leaf.serving,
        ),
    )


def _number(question: _Question) -> int:
    return question.audit.id * _NUMBERS + len(question.words)


def _word(message: Recomputed, question: _Question) -> Word | None:
    """Return the word of an answer, if it is one of somebody else."""
    sizes = (len(message.referee), len(message.out_hash))
    known = {question.audit.worker, *(word.referee for word in question.words)}
    if sizes != (KEY_BYTES, _HASH_BYTES) or message.referee in known:
        return None
    return Word(message.referee, message.out_hash)


def _unopened(audit: OpenAudit, reason: str) -> Finding:
    if audit.is_late:
        return _unasked(audit, "the voucher came late")
    return Finding(audit=audit.id, state=AuditState.UNOPENED, detail=reason)


def _unasked(audit: OpenAudit, reason: str) -> Finding:
    return Finding(audit=audit.id, state=AuditState.UNASKED, detail=reason)


def _clean(reason: str) -> str:
    """Return a peer's words in one printable line."""
    kept = "".join(char for char in reason if char.isprintable())
    return kept[:_REASON_CHARS] or "no reason given"
