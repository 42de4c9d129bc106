"""When canaries go out, and what comes of their answers."""

from random import Random

import pytest

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Canary, CanaryAnswer
from mobile_worker.messages.codec import encode_message
from p2pmoe.market.canaries import Canaries, CanarySettings, Listed
from p2pmoe.market.canary_plan import TICKS, HolderView
from relay.keys import PeerId

A, B, BACKBONE = (PeerId(bytes([n]) * 32) for n in range(1, 4))
E = [ExpertId(0, n) for n in range(TICKS)]
MODEL = b"m" * 32
PERIOD_S = 600.0


class Rig:
    """Canaries over two holders of other domains."""

    def __init__(self, **settings: float) -> None:
        self.holders = {A: set(E), B: set(E)}
        self.is_listed = True
        self.canaries = Canaries(
            CanarySettings(**{"period_s": PERIOD_S, **settings}), Random(1), self.listed
        )

    def listed(self, name: bytes) -> Listed | None:
        assert name == MODEL
        if not self.is_listed:
            return None
        holders = [
            HolderView(peer=peer, domain=peer.hex(), is_known=True, experts=experts)
            for peer, experts in self.holders.items()
        ]
        return Listed(holders=holders, backbones={BACKBONE: lambda _: True})

    def out(self, now: float) -> dict[PeerId, Canary]:
        sends = self.canaries.tick(now)
        for send in sends:
            encode_message(send.message)
        return {send.peer: send.message for send in sends}

    def answer(self, peer: PeerId, canary: Canary) -> None:
        hashes = b"h" * 16 * len(canary.experts)
        said = CanaryAnswer(
            number=canary.number, experts=canary.experts, hashes=hashes, reason=""
        )
        self.canaries.answered(peer, said)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.canaries.begin(MODEL, E, 0.0)
    return rig


def test_every_expert_is_asked_once_in_a_period_with_one_seed_for_all(rig) -> None:
    asked: list[ExpertId] = []
    seeds = set()
    now = 0.0
    while (due := rig.canaries.next_due()) is not None and due <= PERIOD_S + 1:
        now = max(now, due)
        rig.canaries.take_closed(now)
        out = rig.out(now)
        if out:
            assert out.keys() == {A, B}
            assert out[A].seed == out[B].seed
            assert out[A].number == out[B].number
            assert out[A].experts == out[B].experts
            asked += out[A].experts
            seeds.add(out[A].seed)
            for peer, canary in out.items():
                rig.answer(peer, canary)
    assert sorted(asked) == E
    assert len(seeds) == len(E)  # a fresh one for each moment


def test_a_round_closes_when_all_have_answered(rig) -> None:
    out = rig.out(10.0)
    assert rig.canaries.take_closed(10.0) == []
    rig.answer(A, out[A])
    assert rig.canaries.take_closed(10.1) == []
    assert rig.canaries.next_due() > 10.1
    rig.answer(B, out[B])
    assert rig.canaries.next_due() == float("-inf")
    (closed,) = rig.canaries.take_closed(10.2)
    assert closed.said.keys() == {A, B}
    assert rig.canaries.take_closed(10.3) == []


def test_a_round_closes_with_its_time_and_late_answers_do_not_count(rig) -> None:
    out = rig.out(10.0)
    rig.answer(A, out[A])
    assert rig.canaries.take_closed(27.9) == []
    (closed,) = rig.canaries.take_closed(28.0)
    assert list(closed.silent()) == [B]
    rig.answer(B, out[B])
    assert closed.said.keys() == {A}


def test_what_is_newly_held_is_asked_for_within_seconds(rig) -> None:
    rig.canaries.held(MODEL, A, E[:30], 1.0)
    rig.canaries.held(MODEL, B, E[:2], 1.5)
    assert rig.out(1.9) == {}
    assert rig.canaries.next_due() == 2.0
    out = rig.out(2.0)
    assert set(out[A].experts) == set(E[:30])
    assert set(out[B].experts) == set(E[:30])  # it helps with the others
    assert rig.out(2.0) == {}


def test_nothing_is_left_undone_where_too_much_is_new() -> None:
    rig = Rig()
    many = [ExpertId(n >> 8, n & 0xFF) for n in range(600)]
    rig.holders = {A: set(many)}
    rig.canaries.begin(MODEL, many, 0.0)
    rig.canaries.held(MODEL, A, many, 0.0)
    asked: list[ExpertId] = []
    for now in (1.0, 2.0, 3.0):
        out = rig.out(now)
        asked += out[A].experts
        for peer, canary in out.items():
            rig.answer(peer, canary)
        rig.canaries.take_closed(now)
    assert sorted(asked) == sorted(many)


def test_a_doubt_is_asked_again_with_the_backbone_three_times_at_most(rig) -> None:
    for _ in range(3):
        rig.canaries.doubt(MODEL, E[7])
    out = rig.out(10.0)
    assert E[7] in out[A].experts
    assert out[BACKBONE].experts == (E[7],)
    rig.canaries.take_closed(100.0)
    rig.canaries.doubt(MODEL, E[7])
    out = rig.out(100.0)
    assert BACKBONE not in out
    rig.canaries.doubt(MODEL, E[8])
    rig.canaries.settled(MODEL, E[8])
    rig.canaries.take_closed(200.0)
    assert BACKBONE not in rig.out(200.0)


def test_an_excused_peer_is_not_awaited(rig) -> None:
    out = rig.out(10.0)
    rig.answer(A, out[A])
    rig.canaries.excuse(B)
    (closed,) = rig.canaries.take_closed(10.0)
    assert list(closed.silent()) == []
    rig.canaries.held(MODEL, B, E[:2], 11.0)
    rig.canaries.excuse(B)
    assert rig.out(12.5) == {}


def test_a_model_that_is_listed_no_more_is_forgotten(rig) -> None:
    rig.is_listed = False
    assert rig.out(10.0) == {}
    assert rig.canaries.next_due() is None


def test_where_nobody_holds_anything_nobody_is_asked(rig) -> None:
    rig.holders = {}
    assert rig.out(10.0) == {}
    assert rig.canaries.next_due() == 20.0


def test_no_canaries_at_all_if_so_told() -> None:
    rig = Rig(period_s=0.0)
    rig.canaries.begin(MODEL, E, 0.0)
    rig.canaries.held(MODEL, A, E, 0.0)
    assert rig.canaries.next_due() is None


def test_answers_to_no_round_are_ignored(rig) -> None:
    out = rig.out(10.0)
    wrong = CanaryAnswer(number=3, experts=(), hashes=b"", reason="")
    rig.canaries.answered(A, wrong)
    rig.canaries.doubt(b"x" * 32, E[0])
    rig.canaries.settled(b"x" * 32, E[0])
    rig.canaries.held(b"x" * 32, A, E, 0.0)
    rig.answer(A, out[A])
    rig.answer(B, out[B])
    assert len(rig.canaries.take_closed(11.0)) == 1
