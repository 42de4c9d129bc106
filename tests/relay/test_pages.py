"""Plain HTTP on the relay's port."""

import base64
import hashlib
import re

import httpx
import pytest
import trio
import trio.testing

from relay.pages import PageRequest, PageResponse, Pages, render_head
from tests.support.relays import joined, key, plain_config, running_relay
from tests.support.trio_test import trio_test


def asked(path: str, **changes: object) -> PageRequest:
    values: dict[str, object] = {
        "method": "GET",
        "path": path,
        "query": "",
        "headers": {},
        "remote": "192.0.2.1",
        "forwarded": False,
    }
    return PageRequest(**(values | changes))


async def named(request: PageRequest) -> PageResponse:
    return PageResponse(body=f"{request.path}?{request.query}".encode())


async def longer(_request: PageRequest) -> PageResponse:
    return PageResponse(body=b"longer")


def pages(**changes: object) -> Pages:
    values: dict[str, object] = {
        "metrics": lambda: "metrics",
        "unready": lambda: "",
        "metrics_token": "",
    }
    handlers = {"/blob/": named, "/blob/x/": longer, "/exact": named}
    return Pages(handlers, **(values | changes))


async def status_and_body(request: PageRequest, **changes: object) -> tuple[int, bytes]:
    response = await pages(**changes).answer(request)
    return response.status, response.body


@trio_test
async def test_own_pages() -> None:
    status, body = await status_and_body(asked("/"))
    assert status == 200
    assert b"relay" not in body.lower()
    assert b"p2pmoe" not in body.lower()
    assert await status_and_body(asked("/livez")) == (200, b"ok\n")
    assert await status_and_body(asked("/readyz")) == (200, b"ok\n")
    assert (await status_and_body(asked("/map")))[0] == 404
    signed = await status_and_body(asked("/map"), relay_map=lambda: b"signed")
    assert signed == (200, b"signed")
    unready = await status_and_body(asked("/readyz"), unready=lambda: "no ledger")
    assert unready == (503, b"no ledger\n")


@trio_test
async def test_elsewhere_is_the_neutral_page_with_404() -> None:
    assert await status_and_body(asked("/admin")) == (
        404,
        (await status_and_body(asked("/")))[1],
    )


@trio_test
async def test_the_callers_pages_exact_and_by_the_longest_prefix() -> None:
    assert await status_and_body(asked("/exact", query="a=b")) == (200, b"/exact?a=b")
    assert await status_and_body(asked("/blob/ab")) == (200, b"/blob/ab?")
    assert await status_and_body(asked("/blob/x/y")) == (200, b"longer")
    assert (await status_and_body(asked("/exact/x")))[0] == 404


@trio_test
async def test_only_get_and_head() -> None:
    response = await pages().answer(asked("/", method="POST"))
    assert response.status == 405
    assert response.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("changes", "token", "seen"),
    [
        ({}, "", False),
        ({"remote": "127.0.0.1"}, "", True),
        ({"remote": "::1"}, "", True),
        ({"remote": "127.0.0.1", "forwarded": True}, "", False),
        ({"headers": {"authorization": "Bearer secret"}}, "secret", True),
        ({"headers": {"authorization": "Bearer wrong"}}, "secret", False),
        ({"headers": {"authorization": "Bearer "}}, "", False),
    ],
)
def test_metrics_are_for_loopback_or_the_token(changes, token, seen) -> None:
    async def main() -> None:
        request = asked("/metrics", **changes)
        status, body = await status_and_body(request, metrics_token=token)
        assert (status == 200) is seen
        assert (body == b"metrics") is seen

    trio.run(main)


def test_every_head_has_a_strict_policy() -> None:
    head = render_head(PageResponse(body=b"abc")).decode()
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert head.endswith("\r\n\r\n")
    assert "Content-Security-Policy: default-src 'none';" in head
    assert "X-Content-Type-Options: nosniff" in head
    assert "Content-Length: 3\r\n" in head
    own = render_head(PageResponse(headers={"Content-Security-Policy": "x"})).decode()
    assert own.count("Content-Security-Policy") == 1


@trio_test
async def test_at_most_64_pages_at_once() -> None:
    shared = pages()
    async with trio.open_nursery() as nursery:

        async def hold() -> None:
            async with shared.open(asked("/")) as page:
                assert page.status == 200
                await trio.sleep_forever()

        for _ in range(64):
            nursery.start_soon(hold)
        await trio.testing.wait_all_tasks_blocked()
        async with shared.open(asked("/")) as page:
            assert page.status == 503
        nursery.cancel_scope.cancel()
    async with shared.open(asked("/")) as page:
        assert page.status == 200


async def chunked(_request: PageRequest) -> PageResponse:
    async def chunks():
        for number in range(100):
            yield bytes([number]) * 10_000

    return PageResponse(chunks=chunks(), length=1_000_000, content_type="a/b")


async def broken(_request: PageRequest) -> PageResponse:
    raise RuntimeError("a handler's bug")


@trio_test
async def test_pages_over_a_real_connection(caplog) -> None:
    config = plain_config(metrics_token="secret")  # noqa: S106 - not a secret
    handlers = {"/large": chunked, "/broken": broken}
    async with running_relay(config, pages=handlers) as relay:
        base = f"http://127.0.0.1:{relay.port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            assert (await client.get("/livez")).text == "ok\n"
            head = await client.head("/")
            assert int(head.headers["content-length"]) > 0
            assert head.content == b""
            assert (await client.get("/no")).status_code == 404
            assert (await client.delete("/")).status_code == 405
            large = await client.get("/large")
            assert len(large.content) == 1_000_000
            assert large.content[999_999] == 99
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/broken")
            assert "a handler's bug" in caplog.text
            assert (await client.get("/relay")).status_code == 426
            async with joined(relay, key(1)):
                metrics = (await client.get("/metrics")).text
                assert "p2pmoe_relay_peers 1\n" in metrics
                assert 'refused_total{cause="internal error"} 1' in metrics
            spoofed = {"X-Forwarded-For": "127.0.0.1"}
            assert (await client.get("/metrics", headers=spoofed)).status_code == 404


@trio_test
async def test_the_status_page_is_one_file_whose_policy_names_its_own_script() -> None:
    response = await pages(status=lambda: b'{"a":1}').answer(asked("/"))
    assert response.content_type == "text/html; charset=utf-8"
    policy = response.headers["Content-Security-Policy"]
    for kind, tag in (("script", b"script"), ("style", b"style")):
        [text] = re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), response.body, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "connect-src 'self'" in policy
    # Self-contained: nothing is loaded, no style or handler is in a tag.
    assert not re.findall(rb"(?:src|href)=.(?!data:|#)", response.body)
    assert not re.findall(rb"<[^>]+ (?:style|on\w+)=", response.body)
    assert len(response.body) < 64 * 1024
    told = await pages(status=lambda: b'{"a":1}').answer(asked("/status"))
    assert (told.body, told.content_type) == (b'{"a":1}', "application/json")
    assert await status_and_body(asked("/status")) == (
        404,
        (await status_and_body(asked("/")))[1],
    )
