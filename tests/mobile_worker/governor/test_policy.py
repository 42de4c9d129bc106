"""The policy: nothing flaps whatever the readings do, and overrides last once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.governor.limit_keys import changed
from mobile_worker.governor.limits import Preset
from mobile_worker.governor.pause import Cause
from mobile_worker.governor.policy import GOES_ON_AFTER_S, Decision, Policy
from mobile_worker.governor.presets import PRESETS, UNLIMITED
from mobile_worker.governor.readings import Power, Readings
from mobile_worker.governor.rules import Moment

QUIET = PRESETS[Preset.QUIET]
START = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)
FINE = Readings(
    power=Power.MAINS, temperature_c=40.0, is_metered=False, others_share=0.0
)


def at(now: float, day_bytes: int = 0) -> Moment:
    return Moment(now=now, local=START + timedelta(seconds=now), day_bytes=day_bytes)


def causes(decision: Decision) -> list[Cause]:
    return [pause.cause for pause in decision.pauses]


def test_on_battery_it_rests_at_once_and_goes_on_a_minute_after_mains() -> None:
    policy, battery = Policy(QUIET, 4), replace(FINE, power=Power.BATTERY)
    assert policy.look(FINE, at(0)).pauses == ()
    paused = policy.look(battery, at(2))
    assert causes(paused) == [Cause.BATTERY]
    assert paused.pauses[0].reason == "on battery"
    waiting = policy.look(FINE, at(10)).pauses[0]
    assert waiting.reason == "until a moment ago on battery"
    assert waiting.ends_when == "on mains for a minute"
    assert policy.look(FINE, at(71)).pauses == ()


def test_several_causes_hold_beside_each_other() -> None:
    policy = Policy(QUIET, 4)
    bad = replace(FINE, power=Power.BATTERY, is_metered=True, others_share=0.9)
    assert causes(policy.look(bad, at(0))) == [
        Cause.BATTERY,
        Cause.METERED,
        Cause.BUSY,
    ]
    left = replace(FINE, is_metered=True)
    policy.look(left, at(2))
    assert causes(policy.look(left, at(70))) == [Cause.METERED]


def test_an_override_lasts_until_its_cause_has_passed() -> None:
    policy, battery = Policy(QUIET, 4), replace(FINE, power=Power.BATTERY)
    policy.look(battery, at(0))
    policy.override()
    assert policy.look(battery, at(9000)).pauses == ()
    metered = replace(battery, is_metered=True)
    assert causes(policy.look(metered, at(9002))) == [Cause.METERED]
    policy.look(FINE, at(9010))
    assert policy.look(FINE, at(9100)).pauses == ()
    assert causes(policy.look(battery, at(9102))) == [Cause.BATTERY]


def test_other_limits_hold_at_once() -> None:
    policy, battery = Policy(QUIET, 4), replace(FINE, power=Power.BATTERY)
    assert policy.look(battery, at(0)).pauses
    policy.change(changed(QUIET, {"power": "any"}))
    assert policy.look(battery, at(1)).pauses == ()


def test_heat_must_last_and_work_is_halved_when_it_is_slower() -> None:
    policy, hot = Policy(QUIET, 4), replace(FINE, temperature_c=95.0)
    assert policy.look(hot, at(0)).pauses == ()
    assert causes(policy.look(hot, at(10))) == [Cause.HOT]
    policy = Policy(QUIET, 4)
    slower = replace(FINE, temperature_c=None, slowdown=1.7)
    policy.look(slower, at(0))
    assert policy.look(slower, at(10)).duty == 0.5
    policy.look(replace(slower, slowdown=1.2), at(20))
    assert policy.look(replace(slower, slowdown=1.2), at(80)).duty == 1.0


def test_twice_as_slow_rests_for_five_minutes() -> None:
    policy = Policy(QUIET, 4)
    slow = replace(FINE, temperature_c=None, slowdown=2.5)
    assert causes(policy.look(slow, at(0))) == [Cause.HOT]
    rested = replace(slow, slowdown=None)
    assert causes(policy.look(rested, at(2))) == [Cause.HOT]
    assert causes(policy.look(rested, at(300))) == [Cause.HOT]
    assert policy.look(rested, at(302)).pauses == ()


def test_more_threads_while_nobody_uses_the_machine() -> None:
    policy = Policy(changed(QUIET, {"cpus_idle": "4"}), 8)
    idle = replace(FINE, input_idle_s=900.0)
    assert policy.look(idle, at(0)).n_threads == 1
    assert policy.look(idle, at(60)).n_threads == 4
    assert policy.look(replace(idle, input_idle_s=0.0), at(61)).n_threads == 1
    assert policy.look(idle, at(63)).n_threads == 1


def test_a_schedule_and_a_quota_end_with_the_clock() -> None:
    policy = Policy(changed(QUIET, {"hours": "12:10-13:00"}), 1)
    paused = policy.look(FINE, at(0, day_bytes=1 << 40))
    assert causes(paused) == [Cause.SCHEDULE, Cause.QUOTA]
    assert [pause.ends_at for pause in paused.pauses] == [600.0, 12 * 3600.0]
    policy.look(FINE, at(600))
    assert policy.look(FINE, at(660)).pauses == ()


def test_without_limits_nothing_is_ever_a_reason_but_heat() -> None:
    policy = Policy(UNLIMITED, 4)
    bad = Readings(
        power=Power.BATTERY, battery_percent=1, is_metered=True, others_share=1.0
    )
    decision = policy.look(bad, at(0, day_bytes=1 << 50))
    assert (decision.pauses, decision.n_threads, decision.duty) == ((), 4, 1.0)


_READINGS = st.builds(
    Readings,
    power=st.sampled_from(list(Power)),
    battery_percent=st.none() | st.integers(1, 100),
    temperature_c=st.none() | st.floats(20.0, 110.0),
    battery_c=st.none() | st.floats(20.0, 60.0),
    is_metered=st.none() | st.booleans(),
    others_share=st.none() | st.floats(0.0, 1.0),
    input_idle_s=st.none() | st.floats(0.0, 1000.0),
    slowdown=st.none() | st.floats(0.5, 4.0),
)
_LIMITS = st.sampled_from(
    [
        *PRESETS.values(),
        changed(QUIET, {"power": "battery>=60", "idle_only": "true"}),
        changed(QUIET, {"hours": "12:00-12:03,12:04-12:05", "cpus_idle": "8"}),
    ]
)


@settings(max_examples=100, deadline=None)
@given(
    limits=_LIMITS,
    looks=st.lists(
        st.tuples(
            st.sampled_from([0.25, 2.0, 30.0, 61.0, 301.0]),
            _READINGS,
            st.integers(-7200, 7200),  # the wall clock jumps, too
            st.sampled_from([0, 1 << 40]),
        ),
        max_size=80,
    ),
)
def test_nothing_flaps_whatever_the_readings_do(limits, looks) -> None:
    policy, now = Policy(limits, 8), 0.0
    was_paused, went_on, more = False, [], []
    n_threads = limits.threads_of(8, in_use=True)
    for step, readings, jump_s, day_bytes in looks:
        now += step
        local = START + timedelta(seconds=now + jump_s)
        decision = policy.look(
            readings, Moment(now=now, local=local, day_bytes=day_bytes)
        )
        if was_paused and not decision.pauses:
            went_on.append(now)
        if decision.n_threads > n_threads:
            more.append(now)
        was_paused, n_threads = bool(decision.pauses), decision.n_threads
        for pause in decision.pauses:
            assert pause.reason
            assert pause.ends_when
    for moments in (went_on, more):
        assert all(b - a >= GOES_ON_AFTER_S for a, b in pairwise(moments))
