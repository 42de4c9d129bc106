"""Faults B18 to B23 at the ASGI border, with a clock that jumps: no sockets."""

import json
from dataclasses import dataclass, field
from typing import Any

import trio

from p2pmoe.api.bodies import Bodies, CompletionKind
from p2pmoe.api.chat import parse_chat
from p2pmoe.api.completions import CompletionAnswer, CompletionParts
from p2pmoe.api.event_stream import COMMIT_S, PATIENCE_S, PING_S
from p2pmoe.api.metrics import ApiCounters
from p2pmoe.api.preparation import Asked, prepare
from p2pmoe.backbone.generation import FailureKind, GenerationFailed
from tests.support.api import EOS, Script, small_model, spell
from tests.support.trio_test import trio_test

MODEL = small_model()
USAGE = {"include_usage": True}
LOST = GenerationFailed(FailureKind.UPSTREAM_LOST, "expert 3.7 has no holder")


@dataclass
class Exchange:
    """One ASGI exchange: what was sent, and a client that may leave."""

    sent: list[dict[str, Any]] = field(default_factory=list)
    left: trio.Event = field(default_factory=trio.Event)
    counters: ApiCounters = field(default_factory=ApiCounters)
    takes_s: float = 0.0  # for each message

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        await trio.sleep(self.takes_s)
        self.sent.append(message)

    async def run(self, script: Script, *, stream: bool, **fields: object) -> None:
        messages = [{"role": "user", "content": "x"}]
        body = {"messages": messages, "stream": stream, **fields}
        prepared = prepare(
            parse_chat(json.dumps(body).encode()), MODEL, Asked(fresh_seed=7)
        )
        bodies = Bodies(
            kind=CompletionKind.CHAT,
            id="chatcmpl-1",
            model="small",
            created_s=1,
            tokenizer=MODEL.tokenizer,
            new_call_id=lambda: "call_1",
            include_usage="stream_options" in fields,
            has_logprobs="logprobs" in fields,
        )
        parts = CompletionParts(
            generator=script,
            tokenizer=MODEL.tokenizer,
            counters=self.counters,
            route="/v1/chat/completions",
        )
        answer = CompletionAnswer(parts, prepared, bodies, stream=stream)
        await answer({"type": "http"}, self.receive, self.send)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    @property
    def events(self) -> list[Any]:
        lines = [line[6:] for line in self.body.splitlines() if line[:6] == "data: "]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]

    @property
    def outcomes(self) -> str:
        return self.counters.render()


def deltas(events: list[Any]) -> list[str]:
    return [
        event["choices"][0]["delta"]["content"]
        for event in events
        if isinstance(event, dict)
        and event.get("choices")
        and "content" in event["choices"][0]["delta"]
    ]


@trio_test(autojump=True)
async def test_b21_a_stream_is_a_delta_for_each_step() -> None:
    exchange = Exchange()
    await exchange.run(Script(blocks=[*spell("😊"), (EOS,)]), stream=True)
    assert exchange.status == 200
    assert deltas(exchange.events) == ["", "", "", "😊", ""]
    assert exchange.events[-1] == "[DONE]"
    assert exchange.events[-2]["choices"][0]["finish_reason"] == "stop"
    assert exchange.events[-2]["p2pmoe"]["calls"]["hub"] == 3
    assert exchange.sent[-1]["more_body"] is False
    assert (b"connection", b"close") in exchange.sent[0]["headers"]


@trio_test(autojump=True)
async def test_b19_usage_is_one_extra_chunk_if_asked_for() -> None:
    exchange = Exchange()
    script = Script(blocks=[*spell("hello"), (EOS,)])
    await exchange.run(script, stream=True, stream_options=USAGE)
    with_usage = [e for e in exchange.events[:-1] if e["usage"] is not None]
    assert len(with_usage) == 1
    assert with_usage[0] == exchange.events[-2]
    usage = with_usage[0]["usage"]
    assert with_usage[0]["choices"] == []
    assert usage["completion_tokens"] == 2
    assert usage["prompt_tokens"] + 2 == usage["total_tokens"]
    exchange = Exchange()
    await exchange.run(Script(blocks=[(EOS,)]), stream=True)
    assert all("usage" not in event for event in exchange.events[:-1])


@trio_test(autojump=True)
async def test_b23_a_failure_before_the_first_token_is_503() -> None:
    for stream in (True, False):
        exchange = Exchange()
        await exchange.run(Script(failure=LOST), stream=stream)
        assert exchange.status == 503
        error = json.loads(exchange.body)["error"]
        assert error["type"] == "upstream_lost"
        assert "expert 3.7" in error["message"]
        assert 'outcome="503"' in exchange.outcomes


@trio_test(autojump=True)
async def test_b23_a_failure_after_token_7_is_an_error_frame() -> None:
    exchange = Exchange()
    await exchange.run(Script(blocks=[(100,)] * 7, failure=LOST), stream=True)
    assert exchange.status == 200
    assert len(deltas(exchange.events)) == 7
    assert exchange.events[-1]["error"]["type"] == "upstream_lost"
    assert "[DONE]" not in exchange.body
    assert '"finish_reason":"' not in exchange.body
    assert exchange.sent[-1]["more_body"] is False
    assert 'outcome="upstream_lost"' in exchange.outcomes


@trio_test(autojump=True)
async def test_b23_a_failure_before_the_usage_chunk_is_an_error_frame() -> None:
    exchange = Exchange()
    script = Script(blocks=spell("hello"), failure=LOST)
    await exchange.run(script, stream=True, stream_options=USAGE)
    assert deltas(exchange.events) == ["hello"]
    assert "error" in exchange.events[-1]


@trio_test(autojump=True)
async def test_b23_a_fault_of_our_own_is_a_failure_too() -> None:
    exchange = Exchange()
    await exchange.run(Script(blocks=[(100,), (99_999,)]), stream=True)
    assert exchange.events[-1]["error"]["type"] == "internal_error"
    assert "[DONE]" not in exchange.body
    exchange = Exchange()
    await exchange.run(Script(failure=ValueError("/secret")), stream=False)
    assert exchange.status == 500
    assert "secret" not in exchange.body


@trio_test(autojump=True)
async def test_b20_a_client_that_leaves_ends_its_own_request_only() -> None:
    gone, other = Exchange(), Exchange()
    hanging = Script(blocks=[(100,)], hang=True)
    quiet = Script(hang=True)
    going_on = Script(blocks=[(100,)] * 20, delay_s=1.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: gone.run(hanging, stream=True))
        nursery.start_soon(lambda: other.run(going_on, stream=True))
        whole = Exchange()
        nursery.start_soon(lambda: whole.run(quiet, stream=False))
        await trio.sleep(5)
        gone.left.set()
        whole.left.set()
        await hanging.left.wait()
        await quiet.left.wait()
        assert trio.current_time() < 1e9
        assert (hanging.n_inside, quiet.n_inside, going_on.n_inside) == (0, 0, 1)
    assert len(deltas(other.events)) == 20
    assert other.events[-1] == "[DONE]"
    assert 'outcome="cancelled"' in gone.outcomes
    assert gone.counters.active == 0


@trio_test(autojump=True)
async def test_b20_a_thousand_cancelled_requests_leave_nothing_behind() -> None:
    script = Script(hang=True)
    tasks = trio.lowlevel.current_statistics().tasks_living
    for _ in range(1000):
        exchange = Exchange()
        exchange.left.set()
        await exchange.run(script, stream=True)
    assert script.n_inside == 0
    assert trio.lowlevel.current_statistics().tasks_living == tasks


@trio_test(autojump=True)
async def test_comments_go_out_while_a_stream_is_silent() -> None:
    exchange = Exchange()
    script = Script(blocks=[(100,), (100,), (EOS,)], delay_s=3.5 * PING_S)
    await exchange.run(script, stream=True)
    assert exchange.body.count(": ping\n\n") == 3 + 3
    assert exchange.events[-1] == "[DONE]"


@trio_test(autojump=True)
async def test_a_very_long_wait_commits_to_a_stream() -> None:
    exchange = Exchange()
    script = Script(blocks=[(100,)], delay_s=COMMIT_S + 1)
    await exchange.run(script, stream=True)
    assert exchange.body.startswith(": ping\n\n")
    exchange = Exchange()
    await exchange.run(
        Script(blocks=[(100,)], delay_s=COMMIT_S - 1, failure=LOST), stream=True
    )
    assert ": ping" not in exchange.body


@trio_test(autojump=True)
async def test_b18_usage_counts_what_was_delivered() -> None:
    exchange = Exchange()
    script = Script(blocks=[(100,) * 5, (100,) * 5], hang=True)
    await exchange.run(script, stream=False, max_tokens=8)
    body = json.loads(exchange.body)
    assert body["usage"]["completion_tokens"] == 8
    assert len(body["p2pmoe"]["tokens"]) == 8
    assert body["choices"][0]["finish_reason"] == "length"
    assert 'kind="completion"} 8' in exchange.outcomes


@trio_test(autojump=True)
async def test_b29_a_client_that_takes_nothing_gives_its_lane_back() -> None:
    exchange = Exchange(takes_s=3600.0)
    script = Script(blocks=[*spell("hello"), (EOS,)])
    with trio.fail_after(2 * PATIENCE_S):
        await exchange.run(script, stream=True)
    assert script.n_inside == 0
    assert 'outcome="slow_consumer"} 1' in exchange.outcomes


@trio_test(autojump=True)
async def test_b29_a_client_that_takes_little_has_a_bound_in_all() -> None:
    exchange = Exchange(takes_s=0.9 * PATIENCE_S)
    script = Script(blocks=[*spell("hello hello hello"), (EOS,)])
    started = trio.current_time()
    await exchange.run(script, stream=True)
    assert trio.current_time() - started < 3 * PATIENCE_S
    assert script.n_inside == 0


class Closing(Exchange):
    """A server that says "disconnect" once it has the last byte, and closes then."""

    closed = False

    async def send(self, message: dict[str, Any]) -> None:
        await super().send(message)
        if not message.get("more_body", True):
            self.left.set()
            await trio.sleep(1)
            self.closed = True


@trio_test(autojump=True)
async def test_the_end_of_an_answer_is_not_cut_off_by_itself() -> None:
    for stream in (False, True):
        exchange = Closing()
        await exchange.run(Script(blocks=[*spell("hi"), (EOS,)]), stream=stream)
        assert exchange.closed


@trio_test(autojump=True)
async def test_b29_patience_that_is_used_up_is_no_internal_error() -> None:
    exchange = Exchange()
    script = Script(blocks=[*spell("hello"), (EOS,)])
    sending = exchange.send

    async def send(message: dict[str, Any]) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(PATIENCE_S + 1)  # it went out, late
        await sending(message)

    exchange.send = send  # type: ignore[method-assign]
    await exchange.run(script, stream=True)
    assert 'outcome="slow_consumer"} 1' in exchange.outcomes


def of_choice(events: list[Any], index: int) -> list[Any]:
    return [
        choice
        for event in events
        if isinstance(event, dict)
        for choice in event.get("choices", [])
        if choice["index"] == index
    ]


@trio_test(autojump=True)
async def test_choices_mix_in_a_stream_and_each_is_whole() -> None:
    script = Script(
        blocks=[*spell("hello"), (EOS,)],
        others={8: [*spell("you 33"), (EOS,)]},
        delay_s=1.0,
    )
    exchange = Exchange()
    await exchange.run(script, stream=True, n=2, seed=7, stream_options=USAGE)
    texts = [
        "".join(c["delta"].get("content", "") for c in of_choice(exchange.events, n))
        for n in (0, 1)
    ]
    assert texts == ["hello", "you 33"]
    for n in (0, 1):
        choices = of_choice(exchange.events, n)
        assert choices[0]["delta"]["role"] == "assistant"
        assert [c["finish_reason"] for c in choices if c["finish_reason"]] == ["stop"]
    usage = exchange.events[-2]["usage"]
    counted = [len(r.prompt_ids) for r in script.requests]
    assert usage["prompt_tokens"] == counted[0]
    assert usage["completion_tokens"] == 2 + len(spell("you 33")) + 1
    order = [e["choices"][0]["index"] for e in exchange.events[:4]]
    assert order[0] == 0  # it has computed the prompt
    assert 1 in order
    assert exchange.events[-1] == "[DONE]"


@trio_test(autojump=True)
async def test_choices_of_a_whole_answer_are_in_order() -> None:
    script = Script(
        blocks=[*spell("hello"), (EOS,)], others={8: [*spell("33"), (EOS,)]}
    )
    exchange = Exchange()
    await exchange.run(script, stream=False, n=3, seed=7)
    body = json.loads(exchange.body)
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    texts = [choice["message"]["content"] for choice in body["choices"]]
    assert texts == ["hello", "33", "hello"]
    assert len(body["p2pmoe"]["choices"]) == 3


@trio_test(autojump=True)
async def test_the_first_choice_of_a_prompt_goes_before_the_others() -> None:
    script = Script(blocks=[(100,)] * 3, delay_s=5.0)
    exchange = Exchange()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: exchange.run(script, stream=False, n=3))
        await trio.sleep(4.0)
        assert script.n_inside == 1
        await trio.sleep(2.0)
        assert script.n_inside == 3


@trio_test(autojump=True)
async def test_no_more_than_eight_choices_run_at_once() -> None:
    script = Script(blocks=[(100,)], delay_s=1.0)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, script.n_inside)
            await trio.sleep(0.25)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        exchange = Exchange()
        await exchange.run(script, stream=False, n=16)
        nursery.cancel_scope.cancel()
    assert most == 8
    assert len(json.loads(exchange.body)["choices"]) == 16


@trio_test(autojump=True)
async def test_b23_one_choice_that_fails_fails_the_request() -> None:
    for stream in (False, True):
        script = Script(blocks=[(100,)] * 20, fails_after={7: 0}, delay_s=1.0)
        exchange = Exchange()
        await exchange.run(script, stream=stream, n=3, seed=7)
        assert exchange.status == 503
        assert json.loads(exchange.body)["error"]["type"] == "upstream_lost"
        assert len(script.requests) == 1  # the others wait for its prompt
        assert script.n_inside == 0
    script = Script(blocks=[(100,)] * 20, fails_after={8: 7}, delay_s=1.0)
    exchange = Exchange()
    await exchange.run(script, stream=True, n=3, seed=7)
    assert exchange.status == 200
    assert len(of_choice(exchange.events, 1)) == 7
    assert exchange.events[-1]["error"]["type"] == "upstream_lost"
    assert "[DONE]" not in exchange.body
    assert '"finish_reason":"' not in exchange.body
    assert script.n_inside == 0


@trio_test(autojump=True)
async def test_b23_a_failure_after_another_choice_ended_is_no_end() -> None:
    script = Script(
        blocks=[*spell("hello"), (EOS,)],
        others={8: [(100,)] * 9},
        fails_after={8: 8},
        delay_s=1.0,
    )
    exchange = Exchange()
    await exchange.run(script, stream=True, n=2, seed=7, stream_options=USAGE)
    assert of_choice(exchange.events, 0)[-1]["finish_reason"] == "stop"
    assert "error" in exchange.events[-1]
    assert "[DONE]" not in exchange.body
    assert not any(isinstance(e, dict) and e.get("usage") for e in exchange.events)
    assert 'kind="completion"' not in exchange.outcomes


@trio_test(autojump=True)
async def test_b20_a_client_that_leaves_ends_all_of_its_choices() -> None:
    script = Script(blocks=[(100,)], hang=True)
    exchange = Exchange()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: exchange.run(script, stream=True, n=16))
        await trio.sleep(5)
        assert script.n_inside == 8
        exchange.left.set()
    assert script.n_inside == 0
    assert len(script.requests) == 8


@trio_test(autojump=True)
async def test_a_full_queue_is_429_with_a_time() -> None:
    full = GenerationFailed(FailureKind.OVERLOADED, "the queue is full", retry_s=4.2)
    for stream in (False, True):
        exchange = Exchange()
        await exchange.run(Script(failure=full), stream=stream)
        assert exchange.status == 429
        assert (b"retry-after", b"5") in exchange.sent[0]["headers"]
        assert 'outcome="429"' in exchange.outcomes


@trio_test(autojump=True)
async def test_b21_log_probabilities_of_a_stream_are_those_of_the_whole() -> None:
    script = Script(blocks=[*spell("hello 😊!"), (EOS,)])
    fields = {"logprobs": True, "top_logprobs": 5}
    whole = Exchange()
    await whole.run(script, stream=False, **fields)
    choice = json.loads(whole.body)["choices"][0]
    told = choice["logprobs"]["content"]
    text = choice["message"]["content"]
    assert bytes(byte for each in told for byte in each["bytes"]) == text.encode()
    assert all(len(each["top_logprobs"]) == 5 for each in told)
    streamed = Exchange()
    await streamed.run(script, stream=True, **fields)
    pieces = []
    for part in of_choice(streamed.events, 0):
        content = (part["logprobs"] or {"content": []})["content"]
        own = bytes(byte for each in content for byte in each["bytes"])
        assert own == part["delta"].get("content", "").encode()
        pieces += content
    assert pieces == told


@trio_test(autojump=True)
async def test_steps_and_hashes_come_with_each_chunk_and_at_the_end() -> None:
    script = Script(blocks=[*spell("hello"), (EOS,)])
    exchange = Exchange()
    await exchange.run(script, stream=True, explain=True, trace=True)
    first = exchange.events[0]["p2pmoe"]
    assert first["steps"][0]["calls"]["hub"] == 3
    assert first["hashes"] == [[4, 1, None, "0001020304050607"]]
    assert first["passes"][0]["trips"] == 2
    assert "steps" not in exchange.events[-2]["p2pmoe"]
    whole = Exchange()
    await whole.run(script, stream=False, explain=True)
    whole_told = json.loads(whole.body)["p2pmoe"]
    assert len(whole_told["steps"]) == len(whole_told["passes"]) == 2
