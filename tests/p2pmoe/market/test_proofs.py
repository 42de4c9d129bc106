from mobile_worker.expert_id import ExpertId
from p2pmoe.market.proofs import MAX_SILENCES, Proofs
from relay.keys import PeerId

A, B = PeerId(b"a" * 32), PeerId(b"b" * 32)
MODEL, OTHER = b"m" * 32, b"o" * 32
E0, E1 = ExpertId(0, 0), ExpertId(0, 1)


def test_a_proof_lasts_two_and_a_half_periods() -> None:
    found = Proofs(100.0)
    assert not found.is_proven(A, MODEL, E0, 0.0)
    found.passed(A, MODEL, E0, 10.0)
    assert found.passed_at(A, MODEL, E0) == 10.0
    assert found.is_proven(A, MODEL, E0, 260.0)
    assert not found.is_proven(A, MODEL, E0, 260.1)
    for key in ((A, OTHER, E0), (A, MODEL, E1), (B, MODEL, E0)):
        assert found.passed_at(*key) is None


def test_three_silences_about_one_expert_end_its_proof_alone() -> None:
    found = Proofs(100.0)
    for expert in (E0, E1):
        found.passed(A, MODEL, expert, 10.0)
    for _ in range(MAX_SILENCES - 1):
        found.silent(A, MODEL, E0)
    assert found.is_proven(A, MODEL, E0, 11.0)
    found.silent(A, MODEL, E0)
    assert not found.is_proven(A, MODEL, E0, 11.0)
    assert found.is_proven(A, MODEL, E1, 11.0)


def test_an_answer_between_begins_the_count_anew() -> None:
    found = Proofs(100.0)
    for _ in range(10):
        found.silent(A, MODEL, E0)
        found.silent(A, MODEL, E0)
        found.passed(A, MODEL, E0, 1.0)
    assert found.is_proven(A, MODEL, E0, 2.0)


def test_a_wrong_result_and_leaving_end_all() -> None:
    found = Proofs(100.0)
    found.passed(A, MODEL, E0, 1.0)
    found.failed(A)
    assert not found.is_proven(A, MODEL, E0, 1.0)
    found.passed(A, MODEL, E0, 1.0)
    found.forget(A)
    found.forget(B)
    assert not found.is_proven(A, MODEL, E0, 1.0)


def test_the_end_of_one_business_leaves_the_others_proven() -> None:
    found = Proofs(100.0)
    found.keep(A, ())
    found.passed(A, MODEL, E0, 1.0)
    found.passed(A, OTHER, E0, 1.0)
    found.keep(A, {OTHER})
    assert not found.is_proven(A, MODEL, E0, 1.0)
    assert found.is_proven(A, OTHER, E0, 1.0)
