"""The official client against a real server; addresses and ports."""

import contextlib
import socket
from collections.abc import Iterator

import openai
import pytest
import trio

from p2pmoe.api.keys import ApiKeys
from p2pmoe.api.server import ListenAddress, serve_api
from p2pmoe.backbone.generation import FailureKind, GenerationFailed
from p2pmoe.errors import ConfigurationError
from tests.support.api import EOS, Script, api_parts, call, served, spell
from tests.support.trio_test import trio_test

LOST = GenerationFailed(FailureKind.UPSTREAM_LOST, "expert 3.7 has no holder")
MESSAGES = [{"role": "user", "content": "x"}]


@contextlib.contextmanager
def official(base_url: str, key: str = "any") -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{base_url}/v1",
        api_key=key,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    ) as client:
        yield client


@trio_test
async def test_the_official_client_gets_whole_answers() -> None:
    script = Script(blocks=[*spell("hello 33"), (EOS,)])
    async with served(api_parts(script, keys=ApiKeys.parse("k"))) as http:

        def ask() -> None:
            with official(str(http.base_url), "k") as client:
                assert [model.id for model in client.models.list()] == ["small"]
                chat = client.chat.completions.create(
                    model="small", messages=MESSAGES, max_tokens=20, stop=["!"]
                )
                assert chat.choices[0].message.content == "hello 33"
                assert chat.choices[0].finish_reason == "stop"
                assert chat.usage is not None
                assert chat.usage.total_tokens == (
                    chat.usage.prompt_tokens + chat.usage.completion_tokens
                )
                text = client.completions.create(model="small", prompt="x", seed=3)
                assert text.choices[0].text == "hello 33"

        await call(ask)
    assert script.requests[1].sampling.seed == 3


@trio_test
async def test_the_official_client_gets_streams() -> None:
    script = Script(blocks=[*spell("hello 😊"), (EOS,)])
    async with served(api_parts(script)) as http:

        def ask() -> None:
            with official(str(http.base_url)) as client:
                with client.chat.completions.create(
                    model="small",
                    messages=MESSAGES,
                    stream=True,
                    stream_options={"include_usage": True},
                ) as stream:
                    chunks = list(stream)
                texts = [
                    chunk.choices[0].delta.content or ""
                    for chunk in chunks
                    if chunk.choices
                ]
                assert "".join(texts) == "hello 😊"
                assert chunks[-1].choices == []
                assert chunks[-1].usage is not None
                assert chunks[-2].choices[0].finish_reason == "stop"
                with client.completions.create(
                    model="small", prompt="x", stream=True
                ) as plain:
                    assert "".join(c.choices[0].text for c in plain) == "hello 😊"

        await call(ask)


@trio_test
async def test_b23_the_official_client_sees_failures() -> None:
    script = Script(blocks=[(100,)] * 7, failure=LOST)
    async with served(api_parts(script)) as http:

        def ask_stream() -> None:
            with official(str(http.base_url)) as client:
                with client.chat.completions.create(
                    model="small", messages=MESSAGES, stream=True
                ) as stream:
                    for _ in range(7):
                        next(stream)
                    with pytest.raises(openai.APIError, match=r"expert 3\.7"):
                        next(stream)

        await call(ask_stream)

        def ask_whole() -> None:
            with official(str(http.base_url)) as client:
                with pytest.raises(openai.InternalServerError) as caught:
                    client.chat.completions.create(model="small", messages=MESSAGES)
                assert caught.value.status_code == 503
                with pytest.raises(openai.BadRequestError) as refused:
                    client.chat.completions.create(
                        model="small", messages=MESSAGES, top_logprobs=1
                    )
                assert refused.value.param == "top_logprobs"

        await call(ask_whole)


@trio_test
async def test_an_address_beyond_this_machine_needs_a_key() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "moe.example"):  # noqa: S104 - refused
        with pytest.raises(ConfigurationError, match="needs an API key") as caught:
            await serve_api(api_parts(Script()), ListenAddress(host, 0))
        assert "P2PMOE_API_KEY" in caught.value.advice


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False)],
)
def test_local_addresses(host: str, local: bool) -> None:
    assert ListenAddress(host, 80).is_local is local


@trio_test
async def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = ListenAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ConfigurationError, match="cannot listen on 127"):
            await serve_api(api_parts(Script()), address)


@trio_test
async def test_a_shutdown_lets_requests_finish() -> None:
    script = Script(blocks=[*spell("hello"), (EOS,)], delay_s=0.02)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        address = await nursery.start(
            lambda task_status: serve_api(
                api_parts(script),
                ListenAddress("127.0.0.1", 0),
                shutdown=stop.wait,
                task_status=task_status,
            )
        )

        def ask() -> str:
            with official(f"http://127.0.0.1:{address.port}") as client:
                answer = client.completions.create(model="small", prompt="x")
                return answer.choices[0].text

        async def stop_in_mid_request() -> None:
            await script.entered.wait()
            stop.set()

        nursery.start_soon(stop_in_mid_request)
        assert await call(ask) == "hello"
