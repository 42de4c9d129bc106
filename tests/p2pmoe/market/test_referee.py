"""Who is asked to compute a serving again, and what the ledger hears."""

from random import Random

import pytest

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Canary, CanaryAnswer, Recompute, Recomputed
from mobile_worker.messages.codec import encode_message
from p2pmoe.market.referee import Candidate, Candidates, Referee
from relay.keys import PeerId

WORKER, NEAR, FAR, NEW, THIRD, BACKBONE, LEDGER = (
    PeerId(bytes([n]) * 32) for n in range(1, 8)
)
SECOND_BACKBONE = PeerId(bytes([8]) * 32)
E = ExpertId(2, 5)
HASH = b"h" * 16


def recompute(number: int, avoid: tuple[PeerId, ...] = ()) -> Recompute:
    return Recompute(
        number=number,
        manifest_hash=b"m" * 32,
        expert=(E,),
        profile=1,
        n_rows=3,
        worker=WORKER,
        avoid=b"".join(avoid),
        rows=b"rows",
    )


class Rig:
    def __init__(self) -> None:
        self.domains = {WORKER: "home", NEAR: "home", FAR: "far", NEW: "new"}
        self.domains[THIRD] = "third"
        self.known = {WORKER, NEAR, FAR, THIRD}
        self.holders = [WORKER, NEAR, FAR, NEW]
        self.backbones = [BACKBONE]
        candidates = Candidates(
            holders=lambda name, expert: [
                Candidate(peer=p, domain=self.domains[p], is_known=p in self.known)
                for p in self.holders
                if expert == E and name == b"m" * 32
            ],
            backbones=lambda _name, _expert: self.backbones,
            is_backbone=lambda peer: peer in {BACKBONE, SECOND_BACKBONE},
            domain=lambda peer: self.domains.get(peer, ""),
        )
        self.referee = Referee(candidates, Random(1))

    def ask(self, number: int = 1, avoid: tuple[PeerId, ...] = (), now: float = 0.0):
        asked = recompute(number, avoid)
        return self.only(self.referee.asked(LEDGER, asked, now))

    def only(self, sends):
        (send,) = sends
        encode_message(send.message)
        return send

    def answer(self, send, *, ok: bool = True, peer: PeerId | None = None):
        said = CanaryAnswer(
            number=send.message.number,
            experts=(E,) if ok else (),
            hashes=HASH if ok else b"",
            reason="" if ok else "paused",
        )
        return self.referee.answered(peer or send.peer, said, 1.0)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_known_holder_of_another_domain_computes_it_again(rig) -> None:
    send = rig.ask(number=44)
    assert send.peer == FAR
    canary = send.message
    assert isinstance(canary, Canary)
    assert (canary.rows, canary.seed, canary.n_rows) == (b"rows", b"", 3)
    assert (canary.experts, canary.profile) == ((E,), 1)
    said = rig.only(rig.answer(send))
    assert said.peer == LEDGER
    expected = Recomputed(number=44, out_hash=HASH, referee=FAR, reason="")
    assert said.message == expected
    assert len(rig.referee) == 0
    assert rig.answer(send) == []


def test_whom_to_avoid_and_their_domains_are_not_asked(rig) -> None:
    assert rig.ask(avoid=(FAR,)).peer == BACKBONE
    rig.holders.append(THIRD)
    assert rig.ask(number=2, avoid=(FAR,)).peer == THIRD
    rig.domains[THIRD] = "far"
    assert rig.ask(number=3, avoid=(FAR,)).peer == BACKBONE


def test_two_made_up_backbones_do_not_convict(rig) -> None:
    """Anybody can list a copy of a manifest: one such word in an audit at most."""
    rig.backbones = [BACKBONE, SECOND_BACKBONE]
    rig.holders = [WORKER]
    first = rig.ask().peer
    assert first in rig.backbones
    said = rig.ask(number=2, avoid=(first,))
    assert (said.peer, said.message.out_hash) == (LEDGER, b"")
    rig.backbones.remove(first)  # it has the expert no more, it says
    assert rig.ask(number=3, avoid=(first,)).peer == LEDGER


def test_a_newcomer_is_never_a_referee(rig) -> None:
    rig.holders = [NEW]
    assert rig.ask().peer == BACKBONE


def test_nobody_who_may_is_said_at_once(rig) -> None:
    rig.holders, rig.backbones = [NEAR], []
    said = rig.ask()
    assert said.peer == LEDGER
    assert (said.message.out_hash, said.message.referee) == (b"", b"")
    assert said.message.reason == "no other holder"


def test_the_next_one_is_asked_where_one_is_silent_refuses_or_is_lost(rig) -> None:
    rig.holders.append(THIRD)
    first = rig.ask()
    assert rig.referee.next_due() == 18.0
    assert rig.referee.tick(17.9) == []
    second = rig.only(rig.referee.tick(18.0))
    assert {first.peer, second.peer} == {FAR, THIRD}
    assert rig.answer(first) == []  # too late
    third = rig.only(rig.answer(second, ok=False))
    assert third.peer == BACKBONE
    said = rig.only(rig.referee.lost(BACKBONE, 20.0))
    assert said.message.reason == "no answer"
    assert rig.referee.next_due() is None


def test_a_torn_answer_is_none(rig) -> None:
    send = rig.ask()
    torn = CanaryAnswer(number=send.message.number, experts=(E,), hashes=b"", reason="")
    assert rig.only(rig.referee.answered(FAR, torn, 1.0)).peer == BACKBONE


def test_nobody_answers_for_another(rig) -> None:
    send = rig.ask()
    assert rig.answer(send, peer=NEAR) == []
    assert len(rig.referee) == 1


def test_a_question_repeated_meanwhile_goes_on(rig) -> None:
    send = rig.ask()
    asked = Recompute(
        number=1,
        manifest_hash=b"m" * 32,
        expert=(E,),
        profile=1,
        n_rows=3,
        worker=WORKER,
        avoid=b"",
        rows=b"rows",
    )
    assert rig.referee.asked(LEDGER, asked, 5.0) == []
    assert rig.only(rig.answer(send)).message.referee == FAR


def test_too_many_and_nothing_are_refused_with_a_reason(rig) -> None:
    for number in range(64):
        rig.referee.asked(LEDGER, recompute(number), 0.0)
    assert rig.ask(number=64).message.reason == "too many are under way"
    nothing = Recompute(
        number=99,
        manifest_hash=b"m" * 32,
        expert=(),
        profile=1,
        n_rows=3,
        worker=WORKER,
        avoid=b"",
        rows=b"",
    )
    (send,) = rig.referee.asked(LEDGER, nothing, 0.0)
    assert send.message.out_hash == b""


def test_a_referee_has_four_at_once_and_the_others_wait_for_it(rig) -> None:
    rig.holders = [WORKER]  # the backbone alone can judge
    asked = [rig.ask(number=n) for n in range(4)]
    for n in range(4, 12):
        assert rig.referee.asked(LEDGER, recompute(n), 0.0) == []
    told = []
    while asked:
        sends = rig.answer(asked.pop(0))
        told += [send.message for send in sends if send.peer == LEDGER]
        asked += [send for send in sends if send.peer == BACKBONE]
        assert len(asked) <= 4
    assert sorted(said.number for said in told) == list(range(12))
    assert {said.reason for said in told} == {""}
    assert len(rig.referee) == 0


def test_one_waits_for_thirty_seconds_at_most(rig) -> None:
    rig.holders = [WORKER]
    for n in range(12):
        rig.referee.asked(LEDGER, recompute(n), 0.0)
    assert rig.referee.next_due() == 18.0
    sends = rig.referee.tick(18.0)
    assert [send.peer for send in sends] == [LEDGER] * 4 + [BACKBONE] * 4
    assert {send.message.reason for send in sends[:4]} == {"no answer"}
    assert rig.referee.next_due() == 30.0
    said = [send.message.reason for send in rig.referee.tick(30.0)]
    assert said == ["all who could are busy"] * 4
    assert len(rig.referee) == 4


def test_who_waits_for_one_that_leaves_is_told(rig) -> None:
    rig.holders = [WORKER]
    for n in range(5):
        rig.referee.asked(LEDGER, recompute(n), 0.0)
    rig.backbones = []
    sends = rig.referee.lost(BACKBONE, 1.0)
    assert sorted(send.message.reason for send in sends) == [
        *["no answer"] * 4,
        "no other holder",
    ]
