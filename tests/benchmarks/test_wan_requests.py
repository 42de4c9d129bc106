"""Figures of runs: counted from the first token on, added up over requests."""

import pytest

from tests.benchmarks.wan_requests import Asked, Run, joined


def a_run(**changes: object) -> Run:
    values = {
        "tokens": (1, 2, 3, 4, 5, 6, 7),
        "decode_s": 2.0,
        "prefill_s": 1.0,
        "n_passes": 3,
        "trips": 12,
        "prefill_trips": 7,
        "wait_s": 0.6,
        "drafted": 8,
        "accepted": 4,
        "bytes_up": 100,
        "bytes_down": 200,
    }
    return Run(**(values | changes))


def test_a_run_is_counted_from_its_first_token_on() -> None:
    run = a_run()
    assert run.n_decoded == 6
    assert run.a == 2.0
    assert run.g == 2.0
    assert run.acceptance == 50.0
    assert run.rate == 3.0
    assert run.crossing_ms == pytest.approx(50.0)


def test_runs_add_up_and_each_has_a_first_token() -> None:
    both = joined([a_run(), a_run(tokens=(8, 9), trips=0)])
    assert both.n_decoded == 7
    assert both.trips == 12
    assert both.tokens == (1, 2, 3, 4, 5, 6, 7, 8, 9)


def test_what_was_not_done_is_nothing() -> None:
    run = a_run(drafted=0, accepted=0, trips=0, wait_s=0.0, n_passes=0)
    assert run.acceptance == 0.0
    assert run.crossing_ms == 0.0


def test_a_digest_tells_tokens_apart() -> None:
    assert a_run().digest == a_run(trips=1).digest
    assert a_run().digest != a_run(tokens=(1, 2)).digest


def test_a_request_asks_for_its_passes() -> None:
    asked = Asked(prompt="a", n_tokens=3, temperature=0.8, seed=5)
    assert asked.body()["explain"] is True
    assert asked.body()["max_tokens"] == 3
