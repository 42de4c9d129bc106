from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from p2pmoe.market.errors import UnknownLease
from p2pmoe.market.lease import (
    TERM_S,
    TRANSITIONS,
    Deployment,
    LeaseEvent,
    LeaseState,
    LeaseTable,
    lease_id_of,
)
from relay.keys import PeerId

WORKER, OTHER, BACKBONE = (PeerId(bytes([n]) * 32) for n in (1, 2, 9))
MODEL = Deployment(BACKBONE, b"m" * 32)
A, B = ExpertId(0, 1), ExpertId(0, 2)


def test_the_table_is_total_over_open_states() -> None:
    open_states = {s for s, _ in TRANSITIONS}
    assert open_states == {LeaseState.GRANTED, LeaseState.LIVE, LeaseState.DRAINING}
    assert len(TRANSITIONS) == len(open_states) * len(LeaseEvent)
    final = {LeaseState.LAPSED, LeaseState.REVOKED, LeaseState.RELEASED}
    assert set(TRANSITIONS.values()) == open_states | final


def test_only_what_is_held_is_live() -> None:
    table = LeaseTable()
    lease = table.grant(WORKER, MODEL, [A, B], 0.0)
    assert lease.live == ()
    assert table.held(lease, [B], 1.0)
    assert lease.live == (B,)
    assert not table.held(lease, [B, ExpertId(7, 7)], 2.0)
    assert lease.held_since == {B: 1.0}
    assert table.held(lease, [A], 3.0)
    assert lease.live == (A, B)


def test_a_lease_not_renewed_lapses_and_a_renewed_one_does_not() -> None:
    table = LeaseTable()
    lease = table.grant(WORKER, MODEL, [A], 0.0)
    other = table.grant(OTHER, MODEL, [A], 0.0)
    table.renew(lease, TERM_S * 0.75)
    assert table.overdue(TERM_S - 0.1) == []
    assert table.overdue(TERM_S) == [other]
    table.end(other, LeaseEvent.TERM_OVER)
    assert other.state is LeaseState.LAPSED
    assert table.next_end() == TERM_S * 1.75
    assert table.overdue(TERM_S * 1.75) == [lease]


def test_b28_a_silent_worker_is_out_within_45_s() -> None:
    assert TERM_S <= 45


def test_draining_is_no_longer_live() -> None:
    table = LeaseTable()
    lease = table.grant(WORKER, MODEL, [A], 0.0)
    table.held(lease, [A], 0.0)
    table.drain(lease)
    table.held(lease, [A], 1.0)
    assert lease.state is LeaseState.DRAINING
    assert lease.live == ()


def test_withdrawn_experts_leave_the_rest() -> None:
    table = LeaseTable()
    lease = table.grant(WORKER, MODEL, [A, B], 0.0)
    table.held(lease, [A, B], 0.0)
    table.withdraw(lease, [A])
    assert set(lease.experts) == {B}
    assert lease.live == (B,)


def test_a_lease_of_another_worker_is_unknown() -> None:
    table = LeaseTable()
    lease = table.grant(WORKER, MODEL, [A], 0.0)
    assert table.get(lease.lease_id, WORKER) is lease
    with pytest.raises(UnknownLease, match="offer again"):
        table.get(lease.lease_id, OTHER)


def test_the_same_lease_has_the_same_id_after_a_restart() -> None:
    first = LeaseTable().grant(WORKER, MODEL, [A], 0.0)
    assert first.lease_id == lease_id_of(WORKER, MODEL)
    assert lease_id_of(OTHER, MODEL) != first.lease_id
    assert lease_id_of(WORKER, Deployment(OTHER, b"m" * 32)) != first.lease_id


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(list(LeaseEvent)))))
def test_the_indices_follow_every_history(steps) -> None:
    table = LeaseTable()
    workers = [PeerId(bytes([n]) * 32) for n in range(4)]
    for number, event in steps:
        worker = workers[number]
        lease = table.find(worker, MODEL)
        if lease is None:
            table.grant(worker, MODEL, [A], 0.0)
        elif event is LeaseEvent.HELD:
            table.held(lease, [A], 0.0)
        elif event is LeaseEvent.RENEWED:
            table.renew(lease, 0.0)
        elif event is LeaseEvent.DRAIN:
            table.drain(lease)
        else:
            table.end(lease, event)
            assert not lease.is_open
    assert len(table) == len(table.of_deployment(MODEL)) == len(list(table))
    assert all(lease.is_open for lease in table)


STEPS = st.tuples(
    st.sampled_from(["grant", "held", "withdraw", "drain", "lost", "renew"]),
    st.sampled_from([WORKER, OTHER]),
    st.sets(st.sampled_from([A, B, ExpertId(1, 0)])),
)


@given(steps=st.lists(STEPS, max_size=30))
def test_replicas_are_what_the_live_leases_hold(steps) -> None:
    table = LeaseTable()
    for at, (what, worker, experts) in enumerate(steps):
        lease = table.find(worker, MODEL)
        if what == "grant":
            table.grant(worker, MODEL, experts, float(at))
        elif lease is None:
            continue
        elif what == "held":
            table.held(lease, experts, float(at))
        elif what == "withdraw":
            table.withdraw(lease, experts)
        elif what == "drain":
            table.drain(lease)
        elif what == "lost":
            table.end(lease, LeaseEvent.LOST)
        else:
            table.renew(lease, float(at))
        live = [e for each in table.of_deployment(MODEL) for e in each.live]
        assert dict(table.replicas(MODEL).counts) == dict(Counter(live))
        assert table.replicas(MODEL).n_held == len(live)
