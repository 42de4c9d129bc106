"""The table of states."""

import dataclasses

import pytest

from mobile_worker.contribute.states import Facts, State, status_of

JOINED = {"joined": True, "relay_is_up": True}
HOLDING = {**JOINED, "n_leased": 4, "n_held": 4}


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
