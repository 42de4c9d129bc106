"""The API over HTTP: answers, refusals, busy servers, lost ones."""

import json
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import trio

from p2pmoe.client.completions import ApiError
from p2pmoe.evaluate import asking
from p2pmoe.evaluate.asking import AnswerRefused, HttpApi, open_api
from tests.support.trio_test import trio_test

Handler = Callable[[httpx.Request], httpx.Response]


def api_of(*answers: httpx.Response | Exception | Handler) -> HttpApi:
    left = list(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    transport = httpx.MockTransport(handle)
    return HttpApi(httpx.AsyncClient(transport=transport, base_url="http://here"))


def events(*lines: str) -> httpx.Response:
    return httpx.Response(200, text="\n\n".join(lines) + "\n\n")


def chunk(**fields: object) -> str:
    return f"data: {json.dumps(fields)}"


@trio_test
async def test_an_answer_is_an_object():
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"a": 1})

    assert await api_of(answer).ask("/v1/completions", {"prompt": "x"}) == {"a": 1}
    assert seen[0].url.path == "/v1/completions"
    assert json.loads(seen[0].content) == {"prompt": "x"}


@pytest.mark.parametrize("raw", [b"", b"[1]", b"\xff", b"[" * 100_000])
@trio_test
async def test_what_is_no_object_ends_it(raw: bytes):
    with pytest.raises(ApiError, match=r"not JSON|no JSON object"):
        await api_of(httpx.Response(200, content=raw)).ask("/v1/x", {})


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, AnswerRefused, r"refused \(400\): no echo"),
        (500, AnswerRefused, r"refused \(500\): no echo"),
        (401, ApiError, r"the backbone refused \(401\): no echo"),
    ],
)
@trio_test
async def test_a_refusal_is_told_in_the_servers_words(status, kind, words):
    body = {"error": {"message": "no echo"}}
    with pytest.raises(kind, match=words):
        await api_of(httpx.Response(status, json=body)).ask("/v1/x", {})
    with pytest.raises(kind, match=words):
        await api_of(httpx.Response(status, json=body)).stream("/v1/x", {})


@trio_test
async def test_a_refusal_in_other_words_is_told_too():
    with pytest.raises(AnswerRefused, match=r"refused \(404\): nothing here"):
        await api_of(httpx.Response(404, text="nothing here")).ask("/v1/x", {})


@trio_test(autojump=True)
async def test_a_busy_server_is_asked_again_after_as_long_as_it_says():
    busy = httpx.Response(429, headers={"retry-after": "7"})
    began = trio.current_time()
    api = api_of(busy, httpx.Response(503), httpx.Response(200, json={}))
    assert await api.ask("/v1/x", {}) == {}
    assert trio.current_time() - began == pytest.approx(8.0)
    most = httpx.Response(429, headers={"retry-after": "99999999999"})
    began = trio.current_time()
    with pytest.raises(AnswerRefused, match="429"):
        await api_of(*[most] * 6).stream("/v1/x", {})
    assert trio.current_time() - began == pytest.approx(150.0)


@trio_test
async def test_a_lost_server_ends_it():
    for error in (httpx.ConnectError("refused"), httpx.ReadTimeout("")):
        with pytest.raises(ApiError, match="cannot be reached, or was lost"):
            await api_of(error).ask("/v1/x", {})


@trio_test(autojump=True)
async def test_a_retry_after_that_is_nearly_a_number_is_read_as_far_as_it_is_one():
    """`float` took all of it, and ended the evaluation with a traceback."""
    for told in ("123456789x", "7 s", "-1"):
        busy = httpx.Response(429, headers={"retry-after": told})
        api = api_of(busy, httpx.Response(200, json={}))
        assert await api.ask("/v1/x", {}) == {}


@trio_test
async def test_an_endless_line_of_a_stream_is_not_kept(monkeypatch):
    monkeypatch.setattr(asking, "MAX_BODY_BYTES", 1000)
    n_read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal n_read
        while True:
            n_read += 100
            await trio.lowlevel.checkpoint()
            yield b"x" * 100

    with pytest.raises(ApiError, match="larger than 1000 bytes"):
        await api_of(httpx.Response(200, content=endless())).stream("/v1/x", {})
    assert n_read <= 1200


@trio_test
async def test_a_phase_that_is_nested_too_deeply_is_a_status():
    deep = httpx.Response(503, text="[" * 100_000)
    assert await api_of(deep).ready() == "status 503"


@trio_test
async def test_an_endless_answer_ends_it(monkeypatch):
    monkeypatch.setattr(asking, "MAX_BODY_BYTES", 10)
    with pytest.raises(ApiError, match="larger than 10 bytes"):
        await api_of(httpx.Response(200, text="x" * 50)).ask("/v1/x", {})


@trio_test
async def test_a_stream_is_put_together_with_its_times():
    answer = events(
        ": ping",
        chunk(choices=[{"text": "a"}]),
        chunk(choices=[{"text": ""}]),
        chunk(choices=[{"delta": {"content": "b"}}]),
        chunk(choices=[{"text": "", "finish_reason": "length"}],
              p2pmoe={"tokens": [5, 6, 7]}),
        chunk(choices=[], usage={"completion_tokens": 3}),
        "data: [DONE]",
    )  # fmt: skip
    found = await api_of(answer).stream("/v1/completions", {"prompt": "x"})
    assert (found.text, found.finish_reason) == ("ab", "length")
    assert found.tokens == (5, 6, 7)
    assert found.times.n_tokens == 3
    first, second = found.times.pieces_s
    assert 0.0 <= first <= second


@trio_test
async def test_a_stream_of_another_server_has_no_ids():
    for own in (None, {"tokens": "x"}, {"tokens": ["1"]}):
        answer = events(chunk(choices=[{"text": "a"}], p2pmoe=own), "data: [DONE]")
        found = await api_of(answer).stream("/v1/x", {})
        assert (found.tokens, found.times.n_tokens) == ((), 1)


@trio_test
async def test_a_stream_that_fails_or_stops_is_no_answer():
    failing = events(chunk(error={"message": "lost", "type": "upstream_lost"}))
    with pytest.raises(AnswerRefused, match=r"failed: lost \(upstream_lost\)"):
        await api_of(failing).stream("/v1/x", {})
    with pytest.raises(ApiError, match="stopped before its end"):
        await api_of(events(chunk(choices=[{"text": "a"}]))).stream("/v1/x", {})


@trio_test
async def test_the_phase_is_told_until_it_is_ready():
    covering = {"detail": "covering 96 %", "phase": "covering"}
    api = api_of(
        httpx.Response(503, json=covering),
        httpx.Response(503, text="proxy"),
        httpx.Response(200, json={}),
    )
    assert [await api.ready() for _ in range(3)] == ["covering 96 %", "status 503", ""]
    with pytest.raises(ApiError, match="cannot be reached"):
        await api_of(httpx.ConnectError("refused")).ready()


@pytest.mark.parametrize(
    ("card", "configuration"),
    [
        ({"id": "m", "p2pmoe": {"configuration": {"digest": "x"}}}, {"digest": "x"}),
        ({"id": "m", "p2pmoe": {"configuration": 5}}, None),
        ({"id": "m", "p2pmoe": None}, None),
        ({"id": "m"}, None),
    ],
)
@trio_test
async def test_the_card_names_the_model(card, configuration):
    found = await api_of(httpx.Response(200, json={"data": [card]})).card()
    assert (found.name, found.configuration) == ("m", configuration)


@pytest.mark.parametrize("body", [{}, {"data": []}, {"data": [5]}, {"data": [{}]}])
@trio_test
async def test_a_server_without_a_card_is_none(body):
    with pytest.raises(ApiError, match="lists no model"):
        await api_of(httpx.Response(200, json=body)).card()


@trio_test
async def test_the_address_may_end_in_v1_and_the_key_is_sent():
    async with open_api("127.0.0.1:9/v1/", "secret") as api:
        client = api._client
        assert str(client.base_url) == "http://127.0.0.1:9"
        assert client.headers["authorization"] == "Bearer secret"
    for url in ("ftp://host", "http://", ""):
        with pytest.raises(ApiError, match="is no address"):
            async with open_api(url):
                pass


@trio_test
async def test_a_client_that_is_cancelled_leaves_nothing_open():
    closed: list[bool] = []

    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b'data: {"choices":[{"text":"a"}]}\n\n'
            await trio.sleep_forever()

        async def aclose(self) -> None:
            closed.append(True)

    with trio.move_on_after(0.01):
        await api_of(httpx.Response(200, stream=Slow())).stream("/v1/x", {})
    assert closed == [True]
