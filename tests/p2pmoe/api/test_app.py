"""Routes and gates over a real socket, with raw HTTP for what is wrong."""

import json

import httpx
import pytest
import trio

from p2pmoe.api.keys import ApiKeys
from p2pmoe.api.request_body import MAX_BODY_BYTES
from p2pmoe.backbone.generation import Phase, Readiness
from tests.support.api import EOS, Script, api_parts, call, served, small_model, spell
from tests.support.trio_test import trio_test

CHAT = {"messages": [{"role": "user", "content": "x"}]}


@trio_test
async def test_pages_and_models() -> None:
    parts = api_parts(Script(), metrics=[lambda: "p2pmoe_other 1\n"])
    async with served(parts) as client:
        assert (await client.get("/livez")).text == "alive\n"
        ready = await client.get("/readyz")
        assert ready.json() == {
            "ready": True,
            "phase": "ready",
            "covered": 1.0,
            "detail": "",
        }
        assert "p2pmoe_other 1" in (await client.get("/metrics")).text
        models = (await client.get("/v1/models")).json()
        assert [card["id"] for card in models["data"]] == ["small"]
        assert (await client.get("/v1/models/small")).json()["object"] == "model"
        missing = await client.get("/v1/models/other")
        assert (missing.status_code, missing.json()["error"]["code"]) == (
            404,
            "model_not_found",
        )
        for answer in (
            await client.get("/nothing"),
            await client.get("/v1/completions"),
        ):
            assert answer.status_code in {404, 405}
            assert answer.json()["error"]["type"] == "invalid_request_error"


@trio_test
async def test_readiness_gates_completions() -> None:
    script = Script()
    covering = Readiness(phase=Phase.COVERING, covered=0.96)
    async with served(api_parts(script, readiness=covering)) as client:
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["covered"]) == (503, 0.96)
        answer = await client.post("/v1/chat/completions", json=CHAT)
        assert (answer.status_code, answer.json()["error"]["code"]) == (
            503,
            "not_ready",
        )
        assert not script.requests
    damaged = Readiness(phase=Phase.READY, detail="lost", is_damaged=True)
    async with served(api_parts(script, readiness=damaged)) as client:
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["detail"]) == (503, "lost")
        answer = await client.post("/v1/chat/completions", json=CHAT)
        assert answer.status_code == 200  # what is in memory still answers
        script.requests.clear()
    async with served(api_parts(script, model=None)) as client:
        assert (await client.get("/v1/models")).json()["data"] == []
        answer = await client.post("/v1/chat/completions", json=CHAT)
        assert answer.status_code == 503


@pytest.mark.parametrize(
    "content",
    [
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
        b'{"prompt": "x", "prompt": "y"}',
        b"[" * 10_000,
        b"not json",
    ],
    ids=range(4),
)
@trio_test
async def test_b19_bad_bodies_are_400_and_no_work(content: bytes) -> None:
    script = Script()
    async with served(api_parts(script)) as client:
        for path in ("/v1/chat/completions", "/v1/completions"):
            answer = await client.post(
                path, content=content, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "invalid_json"
    assert not script.requests


@trio_test
async def test_b19_bad_values_are_400_and_no_work() -> None:
    script = Script()
    async with served(api_parts(script)) as client:
        for field, value in [("temperature", -1), ("n", 17), ("max_tokens", 0)]:
            answer = await client.post(
                "/v1/chat/completions", json={**CHAT, field: value}
            )
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == field
        long = {"prompt": [100] * 65}
        answer = await client.post("/v1/completions", json=long)
        assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert not script.requests


@trio_test
async def test_b19_a_huge_body_is_refused_unread() -> None:
    async with served(api_parts(Script())) as http:
        pieces = [b" " * (1 << 16)] * (2 * MAX_BODY_BYTES >> 16)
        for content in (b" " * (100 << 20), pieces):

            def send(content: bytes | list[bytes] = content) -> httpx.Response:
                with httpx.Client(trust_env=False) as client:
                    return client.post(
                        f"{http.base_url}/v1/completions",
                        content=content,
                        headers={"content-type": "application/json"},
                    )

            answer = await call(send)
            assert answer.status_code == 413
            assert answer.json()["error"]["code"] == "body_too_large"


@trio_test
async def test_other_content_types_are_refused() -> None:
    async with served(api_parts(Script())) as client:
        answer = await client.post("/v1/completions", content=b'{"prompt": "x"}')
        assert answer.status_code == 415


@trio_test
async def test_without_a_key_only_names_of_this_machine_are_served() -> None:
    async with served(api_parts(Script())) as client:
        for host, status in [
            ("evil.example", 403),
            ("127.0.0.1.evil.example", 403),
            ("localhost:8080", 200),
            ("[::1]:8080", 200),
        ]:
            answer = await client.get("/v1/models", headers={"host": host})
            assert answer.status_code == status, host


@trio_test
async def test_with_a_key_everything_but_health_asks_for_it() -> None:
    script = Script(blocks=[*spell("hello"), (EOS,)])
    async with served(api_parts(script, keys=ApiKeys.parse("s3cret"))) as client:
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "Basic s3cret"},
            {"authorization": "Bearer é"},
        ):
            raw = {k: v.encode() for k, v in headers.items()}
            for path in ("/v1/models", "/metrics"):
                answer = await client.get(path, headers=raw)
                assert answer.status_code == 401
                assert answer.json()["error"]["code"] == "invalid_api_key"
        right = {"authorization": "Bearer s3cret", "host": "moe.example"}
        answer = await client.post("/v1/chat/completions", json=CHAT, headers=right)
        assert answer.json()["choices"][0]["message"]["content"] == "hello"


@trio_test
async def test_b07_the_server_goes_on_after_a_template_failure() -> None:
    broken = small_model(template="{{ messages.append(1) }}")
    script = Script(blocks=[(EOS,)])
    async with served(api_parts(script, model=broken)) as client:
        answer = await client.post("/v1/chat/completions", json=CHAT)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (500, "template_failed")
        assert error["type"] == "server_error"
        answer = await client.post("/v1/completions", json={"prompt": "x"})
        assert answer.status_code == 200


@trio_test
async def test_the_whole_and_the_streamed_answer_are_the_same_text() -> None:
    script = Script(blocks=[*spell("hello é 😊!"), (EOS,)])
    async with served(api_parts(script)) as client:
        whole = await client.post("/v1/completions", json={"prompt": "x"})
        text = whole.json()["choices"][0]["text"]
        stream = await client.post(
            "/v1/completions", json={"prompt": "x", "stream": True}
        )
        lines = [line for line in stream.text.splitlines() if line[:7] == "data: {"]
        pieces = [json.loads(line[6:])["choices"][0]["text"] for line in lines]
        assert "".join(pieces) == text == "hello é 😊!"
        assert script.requests[0].sampling.seed == 7
        page = (await client.get("/metrics")).text
        assert 'outcome="200"} 2\n' in page
        assert "cancelled" not in page


async def post_raw(client: httpx.AsyncClient, body: bytes) -> trio.SocketStream:
    port = client.base_url.port
    assert port is not None
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    head = (
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    await stream.send_all(head.encode() + body)
    return stream


@pytest.mark.parametrize("body", [b'{"prompt":"x"}', b'{"prompt":"x","stream":true}'])
@pytest.mark.parametrize("half", [False, True])
@trio_test
async def test_b20_a_client_that_closes_ends_its_generation(
    body: bytes, half: bool
) -> None:
    script = Script(blocks=[(100,)] * 10, hang=True)
    async with served(api_parts(script)) as client:
        stream = await post_raw(client, body)
        await script.entered.wait()
        if half:
            await stream.send_eof()
        else:
            await stream.aclose()
        await script.left.wait()
        assert script.n_inside == 0
        assert (await client.get("/livez")).status_code == 200
        await stream.aclose()
