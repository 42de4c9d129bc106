"""The relay's load: differences of counters, seen once a second."""

from hypothesis import given
from hypothesis import strategies as st

from relay.frame_types import NackReason
from relay.load import Load, Moment
from relay.metrics import Counters, Gauges
from relay.tokens import Role

GAUGES = Gauges(peers=3, parked=0, connections=4, queued_bytes=700)
ROLES = [Role.WORKER, Role.MARKET, Role.WORKER]


def moment(now: float) -> Moment:
    return Moment(now=now, cpu_s=now / 4)


def load() -> Load:
    return Load(moment(100.0), max_queued_bytes=10_000)


def test_rates_are_of_the_last_second() -> None:
    counters, shown = Counters(), load()
    first = shown.section(moment(101.0), counters, GAUGES, ROLES)
    assert first["now"] is None
    assert first["roles"] == {"worker": 2, "market": 1}
    assert first["uptime_s"] == 1
    counters.delivered = 500
    counters.bytes_in, counters.bytes_out = 4_000, 8_000
    counters.admitted = 2
    counters.nacked[NackReason.EXPIRED] = 4
    counters.counted[NackReason.QUEUE_FULL] = 6
    counters.refused["tls"] = 7
    counters.delays[0] = 99
    counters.delays[10] = 1
    second = shown.section(moment(103.0), counters, GAUGES, ROLES)
    assert second["now"] == {
        "frames_s": 250.0,
        "in_bytes_s": 2_000,
        "out_bytes_s": 4_000,
        "drops_s": 5.0,
        "joins_s": 1.0,
        "cores": 0.25,
        "delay_below_ms": 1,
    }
    assert (second["frames"], second["drops"], second["refused"]) == (500, 10, 7)
    assert (second["queued_bytes"], second["max_queued_bytes"]) == (700, 10_000)


def test_a_slow_tail_is_seen_and_an_idle_second_has_none() -> None:
    counters, shown = Counters(), load()
    shown.section(moment(101.0), counters, GAUGES, ROLES)
    counters.delays[0], counters.delays[10] = 90, 10
    second = shown.section(moment(102.0), counters, GAUGES, ROLES)
    assert second["now"]["delay_below_ms"] == 1024
    third = shown.section(moment(103.0), counters, GAUGES, ROLES)
    assert third["now"]["delay_below_ms"] is None


@given(gap=st.one_of(st.floats(5.01, 1e9), st.floats(-1e9, 0)))
def test_looks_that_are_far_apart_give_no_rate(gap: float) -> None:
    shown = load()
    shown.section(moment(101.0), Counters(), GAUGES, ROLES)
    section = shown.section(moment(101.0 + gap), Counters(), GAUGES, ROLES)
    assert section["now"] is None
