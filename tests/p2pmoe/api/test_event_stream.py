"""Frames and comments on a connection; what they are for is in test_completions."""

import json
from http import HTTPStatus
from typing import Any

import pytest
import trio

from p2pmoe.api.event_stream import (
    PATIENCE_S,
    PING_S,
    ClientTooSlow,
    EventStream,
    send_failure,
    send_json,
)
from p2pmoe.backbone.generation import FailureKind, GenerationFailed
from tests.support.trio_test import trio_test

FULL = GenerationFailed(FailureKind.OVERLOADED, "the queue is full", retry_s=7.0)


class Wire:
    """What was sent; each message may take its time."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.sent: list[dict[str, Any]] = []
        self._takes_s = takes_s

    async def send(self, message: Any) -> None:
        await trio.sleep(self._takes_s)
        self.sent.append(message)

    @property
    def body(self) -> str:
        return b"".join(each.get("body", b"") for each in self.sent).decode()


@trio_test(autojump=True)
async def test_a_failure_before_the_first_frame_has_its_status() -> None:
    wire = Wire()
    events = EventStream(wire.send)
    assert events.outcome_of(FULL) == "429"
    await events.fail(FULL)
    assert wire.sent[0]["status"] == 429
    assert (b"retry-after", b"7") in wire.sent[0]["headers"]
    assert json.loads(wire.body)["error"]["code"] == "rate_limit_exceeded"


@trio_test(autojump=True)
async def test_a_failure_after_it_is_a_frame() -> None:
    wire = Wire()
    events = EventStream(wire.send)
    await events.frame({"a": "é"})
    assert events.outcome_of(FULL) == "overloaded"
    await events.fail(FULL)
    assert wire.sent[0]["status"] == 200
    assert wire.body.startswith('data: {"a":"é"}\n\ndata: {"error":')
    assert wire.sent[-1]["more_body"] is False


@trio_test(autojump=True)
async def test_comments_come_between_frames() -> None:
    wire = Wire()
    events = EventStream(wire.send)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(events.keep_alive)
        await events.frame({})
        await trio.sleep(2.5 * PING_S)
        await events.done()
        nursery.cancel_scope.cancel()
    assert wire.body == "data: {}\n\n: ping\n\n: ping\n\ndata: [DONE]\n\n"


@trio_test(autojump=True)
async def test_a_client_that_takes_nothing_is_given_up() -> None:
    events = EventStream(Wire(takes_s=PATIENCE_S + 1).send)
    with pytest.raises(ClientTooSlow):
        await events.frame({})


@trio_test(autojump=True)
async def test_whole_answers() -> None:
    wire = Wire()
    await send_json(wire.send, HTTPStatus.OK, {"a": 1}, {"x-b": "c"})
    assert (b"x-b", b"c") in wire.sent[0]["headers"]
    assert (b"content-length", b"7") in wire.sent[0]["headers"]
    wire = Wire()
    await send_failure(wire.send, ValueError("/secret"))
    assert wire.sent[0]["status"] == 500
    assert "secret" not in wire.body
