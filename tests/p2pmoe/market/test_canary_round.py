from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import CanaryAnswer
from p2pmoe.market.canary_round import CanaryRound
from relay.keys import PeerId

A, B, BACKBONE, STRANGER = (PeerId(bytes([n]) * 32) for n in range(1, 5))
E = [ExpertId(0, n) for n in range(4)]
H1, H2 = b"1" * 16, b"2" * 16


def opened() -> CanaryRound:
    return CanaryRound(
        number=7,
        manifest_hash=b"m" * 32,
        seed=b"s" * 32,
        opened_at=0.0,
        closes_at=10.0,
        asked={A: (E[0], E[1]), B: (E[1],)},
        backbones={BACKBONE: (E[1],)},
    )


def answer(*pairs: tuple[ExpertId, bytes], reason: str = "") -> CanaryAnswer:
    return CanaryAnswer(
        number=7,
        experts=tuple(expert for expert, _ in pairs),
        hashes=b"".join(said for _, said in pairs),
        reason=reason,
    )


def test_answers_are_gathered_by_expert() -> None:
    found = opened()
    assert found.answered(A, answer((E[0], H1), (E[1], H2)))
    assert found.answered(B, answer((E[1], H2)))
    assert not found.is_answered
    assert found.answered(BACKBONE, answer((E[1], H1)))
    assert found.is_answered
    assert found.said_of(E[1]) == {A: H2, B: H2}
    assert found.backbones_of(E[1]) == {BACKBONE: H1}
    assert found.said_of(E[0]) == {A: H1}
    assert set(found.experts()) == {E[0], E[1]}
    assert list(found.silent()) == []


def test_what_was_not_asked_is_ignored() -> None:
    found = opened()
    assert not found.answered(STRANGER, answer((E[0], H1)))
    assert found.answered(B, answer((E[0], H1), (E[1], H2), (E[3], H2)))
    assert found.said[B] == {E[1]: H2}


def test_the_first_answer_counts_and_a_torn_one_not_at_all() -> None:
    found = opened()
    torn = CanaryAnswer(number=7, experts=(E[1],), hashes=b"", reason="")
    assert not found.answered(B, torn)
    assert found.answered(B, answer((E[1], H1)))
    assert not found.answered(B, answer((E[1], H2)))
    assert found.said[B] == {E[1]: H1}


def test_a_reason_is_no_silence() -> None:
    found = opened()
    found.answered(A, answer(reason="paused"))
    assert list(found.silent()) == [B]
    found.excuse(B)
    found.excuse(A)
    assert list(found.silent()) == []
    assert not found.is_answered  # the backbone may still say something
    found.excuse(BACKBONE)
    assert found.is_answered
