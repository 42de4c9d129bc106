"""Phases in order; ready at the wanted share, or when a disk stands behind."""

from p2pmoe.backbone.generation import Phase
from p2pmoe.backbone.readiness import PATIENCE_S, ReadinessGate, with_damage


def test_phases_in_order() -> None:
    gate = ReadinessGate(wanted=1.0, has_disk=False)
    assert gate.phase is Phase.LOADING
    gate.warming()
    assert gate.phase is Phase.WARMING
    gate.cover(0.961, 0.0)
    assert gate.readiness().phase is Phase.COVERING
    assert gate.readiness().detail == "covering 96%"
    gate.cover(0.999, 1e6)
    assert gate.phase is Phase.COVERING
    gate.cover(1.0, 1e6)
    assert gate.phase is Phase.READY
    gate.draining()
    gate.cover(1.0, 1e6)
    assert gate.phase is Phase.DRAINING


def test_no_request_is_taken_before_it_was_ready() -> None:
    gate = ReadinessGate(wanted=1.0, has_disk=False)
    assert not gate.readiness().takes_requests
    gate.warming()
    assert not gate.readiness().takes_requests
    gate.cover(0.9, 0.0)
    assert not gate.readiness().takes_requests
    gate.cover(1.0, 0.0)
    assert gate.readiness().takes_requests
    gate.draining()
    assert not gate.readiness().takes_requests


def test_readiness_falls_when_coverage_does_and_comes_back() -> None:
    gate = ReadinessGate(wanted=0.9, has_disk=False)
    gate.cover(1.0, 0.0)
    gate.cover(0.95, 1.0)
    assert gate.phase is Phase.READY
    gate.cover(0.5, 2.0)
    now = gate.readiness()
    assert (now.phase, now.covered, now.detail) == (
        Phase.COVERING,
        0.5,
        "covering 50%",
    )
    assert now.takes_requests  # the policy for missing experts decides about them
    gate.cover(0.9, 3.0)
    assert gate.phase is Phase.READY


def test_with_a_disk_readiness_stays() -> None:
    gate = ReadinessGate(wanted=1.0, has_disk=True)
    gate.cover(1.0, 0.0)
    gate.cover(0.2, 1.0)
    assert (gate.phase, gate.readiness().covered) == (Phase.READY, 0.2)


def test_with_a_disk_patience_ends() -> None:
    gate = ReadinessGate(wanted=1.0, has_disk=True)
    gate.cover(0.3, 0.0)
    gate.cover(0.4, PATIENCE_S - 1)
    gate.cover(0.4, 2 * PATIENCE_S - 2)
    assert gate.phase is Phase.COVERING
    gate.cover(0.4, 2 * PATIENCE_S)
    assert gate.phase is Phase.READY


def test_damage_ends_readiness_where_nobody_else_has_the_experts() -> None:
    gate = ReadinessGate(wanted=0.0, has_disk=True)
    assert not with_damage(gate.readiness(), "lost", has_others=False).is_damaged
    gate.cover(1.0, 0.0)
    assert with_damage(gate.readiness(), "", has_others=False) == gate.readiness()
    alone = with_damage(gate.readiness(), "lost", has_others=False)
    assert (alone.phase, alone.detail, alone.is_damaged) == (Phase.READY, "lost", True)
    among = with_damage(gate.readiness(), "lost", has_others=True)
    assert (among.detail, among.is_damaged) == ("lost", False)
