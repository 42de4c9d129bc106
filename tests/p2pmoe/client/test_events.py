"""Lines of a completion stream: deltas, ends, errors and rubbish."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.client.events import StreamEnd, StreamProblem, TextDelta, parse_event


def chunk(**fields: object) -> str:
    return f"data: {json.dumps(fields)}"


def test_a_text_chunk() -> None:
    event = parse_event(chunk(choices=[{"text": "once"}]))
    assert event == TextDelta(text="once")


def test_a_chat_chunk_with_its_end() -> None:
    event = parse_event(
        chunk(choices=[{"delta": {"content": "!"}, "finish_reason": "stop"}])
    )
    assert event == TextDelta(text="!", finish_reason="stop")


def test_the_usage_chunk_has_no_choices() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    assert parse_event(chunk(choices=[], usage=usage)) == TextDelta(
        text="", usage=usage
    )


def test_the_end() -> None:
    assert parse_event("data: [DONE]") == StreamEnd()


def test_b23_an_error_frame_is_a_problem_not_an_end() -> None:
    event = parse_event(
        chunk(error={"type": "upstream_lost", "message": "no holder left"})
    )
    assert event == StreamProblem(kind="upstream_lost", message="no holder left")


@pytest.mark.parametrize("line", ["", ": ping", "event: message"])
def test_comments_and_blank_lines_are_nothing(line: str) -> None:
    assert parse_event(line) is None


@given(st.text())
def test_rubbish_is_a_problem_and_never_an_exception(body: str) -> None:
    event = parse_event("data:" + body)
    assert isinstance(event, TextDelta | StreamEnd | StreamProblem)


@pytest.mark.parametrize(
    "body",
    ["[" * 100_000, '{"choices": 3}', '{"choices": [7]}', '{"choices": [{"text": 1}]}'],
)
def test_what_is_no_stream_of_ours_is_no_crash(body: str):
    event = parse_event(f"data: {body}")
    assert isinstance(event, StreamProblem) or event == TextDelta(text="")
