"""The table of states."""

import dataclasses

import pytest

from mobile_worker.contribute.states import Facts, State, status_of
from mobile_worker.governor.pause import OVERRIDE, Cause, Pause

JOINED = {"joined": True, "relay_is_up": True}
HOLDING = {**JOINED, "n_leased": 4, "n_held": 4}


def pause(cause: Cause, reason: str = "43 of 60") -> Pause:
    return Pause(cause=cause, reason=reason, ends_when=f"{cause} is over")


@pytest.mark.parametrize(
    ("facts", "state", "reason"),
    [
        ({}, State.STARTING, "reading its key"),
        ({"doing": "self-test"}, State.STARTING, "self-test"),
        (
            {"joined": True, "relay_detail": "connection lost, again in 3 s"},
            State.UNREACHABLE,
            "connection lost, again in 3 s",
        ),
        (JOINED, State.IDLE_NO_DEMAND, "the market has no experts"),
        ({**JOINED, "is_asking": True}, State.IDLE_NO_DEMAND, "asks the market for"),
        (
            {**JOINED, "n_leased": 12, "n_held": 3, "leased_bytes": 96 << 20}
            | {"fetched_bytes": 41 << 20},
            State.FETCHING,
            "3/12 experts, 41.0 of 96.0 MB",
        ),
        (
            {**JOINED, "n_leased": 2, "problem": "the backbone does not answer"},
            State.FETCHING,
            "the backbone does not answer",
        ),
        (HOLDING, State.READY, "holds 4 experts"),
        (
            {**HOLDING, "idle_s": 1.0, "served_last_minute": 77},
            State.SERVING,
            "77 servings a minute",
        ),
        ({**HOLDING, "idle_s": 11.0}, State.READY, ""),
        ({**HOLDING, "draining": "stopped by its user"}, State.DRAINING, "stopped"),
        ({**HOLDING, "draining": "x", "error": "disk full"}, State.ERROR, "disk full"),
        ({**HOLDING, "kicked": "2 wrong results"}, State.KICKED, "2 wrong results"),
        ({"kicked": "2 wrong results"}, State.KICKED, "2 wrong results"),
        (
            {**HOLDING, "probation": "4 of 20 checks passed"},
            State.PROBATION,
            "4 of 20 checks passed, holds 4 experts",
        ),
        (
            {**HOLDING, "probation": "4 of 20 checks passed", "idle_s": 0.0},
            State.SERVING,
            "on probation, 4 of 20 checks passed",
        ),
        (
            {**HOLDING, "idle_s": 0.0, "duty": 0.5},
            State.SERVING,
            "at 50 % of its speed, being warm",
        ),
        *(
            ({**HOLDING, "pauses": (pause(cause),)}, State(f"paused_{cause}"), "43 of")
            for cause in Cause
        ),
    ],
)
def test_the_first_line_that_holds(facts: dict, state: State, reason: str) -> None:
    status = status_of(Facts(**facts), now=5.0)
    assert status.state is state
    assert reason in status.reason
    assert status.line.startswith(state.value.replace("_", " "))


def test_every_state_can_be_reached() -> None:
    marks = test_the_first_line_that_holds.pytestmark[0].args[1]
    assert {state for _, state, _ in marks} == set(State)


def test_since_is_kept_while_the_state_stays() -> None:
    facts = Facts(**HOLDING)
    first = status_of(facts, now=5.0)
    second = status_of(dataclasses.replace(facts, n_held=5, n_leased=5), 9.0, first)
    assert (second.since, second.reason) == (5.0, "holds 5 experts, waiting for work")
    third = status_of(dataclasses.replace(facts, idle_s=0.0), 12.0, second)
    assert third.since == 12.0


def test_pauses_are_independent_and_all_are_told() -> None:
    both = (pause(Cause.USER, "by its user"), pause(Cause.BATTERY, "battery 43 %"))
    status = status_of(Facts(**HOLDING, pauses=both), now=0.0)
    assert status.state is State.PAUSED_USER
    assert status.reason == "by its user; also battery 43 %"
    left = status_of(Facts(**HOLDING, pauses=both[1:]), now=1.0, previous=status)
    assert (left.state, left.reason) == (State.PAUSED_BATTERY, "battery 43 %")
    assert (left.ends_when, left.override) == ("battery is over", OVERRIDE)


def test_a_drain_is_not_undone_by_a_pause() -> None:
    facts = Facts(**HOLDING, draining="stopped", pauses=(pause(Cause.BATTERY),))
    assert status_of(facts, now=0.0).state is State.DRAINING


@pytest.mark.parametrize("state", list(State))
def test_every_state_says_what_ends_it_and_a_pause_its_override(state: State) -> None:
    marks = test_the_first_line_that_holds.pytestmark[0].args[1]
    facts = next(facts for facts, found, _ in marks if found is state)
    facts = {**facts, "kicked_ends": "in an hour", "probation_ends": "16 more pass"}
    status = status_of(Facts(**facts), now=0.0)
    assert status.ends_when
    assert bool(status.override) == state.is_paused
