import dataclasses

import pytest

from p2pmoe.backbone.generation import (
    FailureKind,
    FinishReason,
    GenerationEnd,
    GenerationFailed,
    GenerationRequest,
    Phase,
    Readiness,
    TierCalls,
    Timings,
    Usage,
)
from p2pmoe.errors import RequestFailed
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.text import stopping


def test_values_do_not_change() -> None:
    request = GenerationRequest(
        prompt_ids=(1, 2), sampling=SamplingSettings(), max_tokens=3
    )
    assert request.stop_ids == frozenset()
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.max_tokens = 4


def test_a_failure_says_its_kind_and_ends_one_request() -> None:
    failure = GenerationFailed(FailureKind.UPSTREAM_LOST, "expert 3.7 has no holder")
    assert isinstance(failure, RequestFailed)
    assert failure.kind == "upstream_lost"
    assert str(failure) == failure.reason == "expert 3.7 has no holder"


def test_words_are_those_of_the_api() -> None:
    assert FinishReason is stopping.FinishReason
    words = {"stop", "length", "tool_calls"}
    assert {reason.value for reason in FinishReason} == words
    assert [phase.value for phase in Phase] == [
        "loading",
        "warming",
        "covering",
        "ready",
        "draining",
    ]


def test_figures_start_at_nothing() -> None:
    end = GenerationEnd(finish_reason=None, usage=Usage(), timings=Timings())
    assert end.usage.completion_tokens == 0
    assert end.timings.calls == TierCalls(ram=0, disk=0, hub=0, edge=0)
    assert Readiness(phase=Phase.LOADING).covered == 0.0
