"""What follows from checks: probation, suspension, refusal, pardon."""

from mobile_worker.standing import StandingReason, StandingState
from p2pmoe.market import standing
from p2pmoe.market.incidents import Window
from p2pmoe.market.standing import (
    AFTER_SUSPENSION_PASSES,
    ESTABLISHED_PASSES,
    NEIGHBOURS_S,
    PROBATION_PASSES,
    SUSPENSION_S,
    Record,
    Standings,
    Strike,
)
from relay.keys import PeerId

A, B, C, D = (PeerId(bytes([n]) * 32) for n in range(1, 5))
BACKBONE, OTHER = PeerId(b"b" * 32), PeerId(b"o" * 32)
WRONG = StandingReason.WRONG_SERVING


def test_probation_ends_with_enough_passes() -> None:
    found = Standings()
    found.met(A, "home")
    assert found.state(A) is StandingState.PROBATION
    found.passed(A, PROBATION_PASSES - 1)
    assert found.state(A) is StandingState.PROBATION
    found.passed(A)
    assert found.state(A) is StandingState.GOOD
    assert found.of(A).reason is StandingReason.CHECKED


def test_a_backbones_own_word_counts_as_often_as_others_at_most() -> None:
    found = Standings()
    found.vouched(A, 10_000)
    assert found.of(A).credit == 0
    found.passed(A, 10)
    assert found.of(A).credit == 20
    assert found.state(A) is StandingState.GOOD


def test_one_conviction_suspends_and_the_second_refuses() -> None:
    found = Standings()
    found.met(A, "home")
    found.passed(A, 500)
    assert found.convict(A, WRONG, b"1" * 32, 100.0)
    assert found.state(A) is StandingState.SUSPENDED
    assert found.of(A).passes == 0
    found.expire(100.0 + SUSPENSION_S - 1)
    assert found.state(A) is StandingState.SUSPENDED
    assert found.suspended_s(A, 100.0 + SUSPENSION_S - 1) == 1.0
    found.take_changed()
    found.expire(100.0 + SUSPENSION_S)
    assert found.take_changed() == [A]  # it is told
    assert found.state(A) is StandingState.PROBATION
    found.passed(A, AFTER_SUSPENSION_PASSES - 1)
    assert found.state(A) is StandingState.PROBATION
    found.passed(A)
    assert found.state(A) is StandingState.GOOD
    assert found.convict(A, WRONG, b"2" * 32, 9000.0)
    assert found.state(A) is StandingState.REFUSED
    found.expire(1e9)
    assert found.state(A) is StandingState.REFUSED


def test_a_case_heard_of_twice_counts_once() -> None:
    found = Standings()
    assert found.convict(A, WRONG, b"1" * 32, 1.0)
    assert not found.convict(A, WRONG, b"1" * 32, 2.0)
    assert not found.of(A).is_refused


def test_a_backbone_ends_business_with_itself_alone() -> None:
    found = Standings()
    found.met(A, "home")
    found.passed(A, 500)
    assert found.accused(A, BACKBONE, 1, 1.0)
    assert not found.accused(A, BACKBONE, 1, 2.0)
    assert found.state(A) is StandingState.GOOD
    assert found.is_barred(A, BACKBONE)
    assert not found.is_barred(A, OTHER)
    assert found.has_accused(BACKBONE)
    assert not found.has_accused(OTHER)
    assert found.of(A).mismatches == 2


def test_b34_three_keys_that_a_backbone_found_wrong_bar_their_newcomers_there() -> None:
    found = Standings()
    for peer in (A, B, C, D):
        found.met(peer, "flat")
    for peer in (A, B):
        found.accused(peer, BACKBONE, 1, 1.0)
    assert not found.is_barred(D, BACKBONE)
    found.accused(C, BACKBONE, 1, 1.0)
    assert found.is_barred(D, BACKBONE)
    assert not found.is_barred(D, OTHER)
    found.passed(D, PROBATION_PASSES)
    assert not found.is_barred(D, BACKBONE)  # it is known for itself


def test_b34_three_convicted_keys_close_their_domain_to_new_ones_for_a_day() -> None:
    found = Standings()
    for n, peer in enumerate((A, B, C)):
        found.met(peer, "flat")
        assert found.closed_s("flat", 10.0) == 0
        found.convict(peer, WRONG, bytes([n]) * 32, 10.0)
    assert found.closed_s("flat", 10.0) == NEIGHBOURS_S
    assert found.closed_s("other", 10.0) == 0
    assert found.closed_s("flat", 10.0 + NEIGHBOURS_S) == 0
    found.met(D, "flat")
    assert found.needed(D) == 4 * PROBATION_PASSES


def test_no_domain_is_nobodys_neighbour() -> None:
    found = Standings()
    for n, peer in enumerate((A, B, C)):
        found.convict(peer, WRONG, bytes([n]) * 32, 10.0)
    assert found.closed_s("", 10.0) == 0
    assert found.needed(D) == PROBATION_PASSES


def test_an_incident_takes_strikes_back() -> None:
    found = Standings()
    found.met(A, "home")
    found.silent(A, 5, 100.0)
    found.silent(A, 2, 500.0)
    found.doubted(A, 100.0)
    found.accused(A, BACKBONE, 3, 100.0)
    found.pardon(Window(start=90.0, end=110.0))
    assert found.of(A) == Record(domain="home", timeouts=2)
    assert not found.is_barred(A, BACKBONE)


def test_a_backbone_that_erred_loses_its_accusations_alone() -> None:
    found = Standings()
    found.met(A, "home")
    found.silent(A, 1, 100.0)
    found.accused(A, BACKBONE, 1, 100.0)
    found.accused(A, OTHER, 1, 100.0)
    found.pardon(Window(start=0.0, end=200.0, backbone=BACKBONE))
    record = found.of(A)
    assert (record.accusers, record.timeouts, record.mismatches) == ((OTHER,), 1, 1)


def test_silence_convicts_nobody() -> None:
    found = Standings()
    found.passed(A, 50)
    found.silent(A, 1_000_000, 1.0)
    assert found.state(A) is StandingState.GOOD


def test_nobody_convicts_who_is_better_known() -> None:
    found = Standings()
    found.passed(A, 150)
    found.passed(B, 30)
    assert found.may_convict(A, B)
    assert not found.may_convict(B, A)
    found.passed(B, ESTABLISHED_PASSES)
    found.passed(A, 10_000)
    assert found.may_convict(B, A)


def test_what_is_remembered_holds_after_a_restart() -> None:
    before = Standings()
    for n, peer in enumerate((A, B, C)):
        before.met(peer, "flat")
        before.convict(peer, WRONG, bytes([n]) * 32, 50_000.0)
    before.convict(A, WRONG, b"9" * 32, 50_000.0)
    before.accused(D, BACKBONE, 1, 50_000.0)
    after = Standings()
    after.restored(dict(before.records))
    assert after.state(A) is StandingState.REFUSED
    assert after.state(B) is StandingState.SUSPENDED
    after.expire(7.0)  # the clock of another run
    assert after.suspended_s(B, 7.0) == SUSPENSION_S
    assert after.closed_s("flat", 7.0) == NEIGHBOURS_S
    assert after.is_barred(D, BACKBONE)
    after.expire(7.0 + SUSPENSION_S)
    assert after.state(B) is StandingState.PROBATION
    assert after.state(A) is StandingState.REFUSED


def test_who_left_without_a_trace_is_forgotten() -> None:
    found = Standings()
    found.met(A, "home")
    found.met(B, "home")
    found.passed(B)
    found.forget(A)
    found.forget(B)
    assert list(found.records) == [B]
    assert found.take_changed() == [B]


def test_b34_a_stream_of_fresh_keys_does_not_fill_the_memory(monkeypatch) -> None:
    """A backbone vouches for keys as they come and go, 300 bytes each."""
    monkeypatch.setattr(standing, "_MAX_AWAY", 10)
    monkeypatch.setattr(standing, "_MAX_PLACES", 10)
    found = Standings()
    found.met(A, "home")
    found.passed(A, 30)
    found.met(B, "flat")
    found.convict(B, WRONG, b"1" * 32, 0.0)
    found.convict(B, WRONG, b"2" * 32, 0.0)
    found.forget(B)
    for n in range(100):
        peer = PeerId(n.to_bytes(32, "big"))
        found.met(peer, f"d{n}")
        found.vouched(peer, 1)
        found.accused(peer, PeerId(bytes([n]) * 32), 1, 0.0)
        found.forget(peer)
    assert len(found.records) == 12
    assert found.state(A) is StandingState.GOOD  # it is there
    assert found.state(B) is StandingState.REFUSED
    found.met(B, "home")
    for n in range(100, 200):
        peer = PeerId(n.to_bytes(32, "big"))
        found.met(peer, f"d{n}")
        found.convict(peer, WRONG, b"1" * 32, 0.0)
        found.forget(peer)
    assert len(found.records) == 22
    assert found.state(B) is StandingState.REFUSED
    again = Standings()
    again.restored({PeerId(n.to_bytes(32, "big")): Record(passes=1) for n in range(50)})
    assert len(again.records) == 10


def test_strikes_are_three_kinds() -> None:
    assert len(Strike) == 3
