import pytest
import trio
from starlette.requests import ClientDisconnect, Request

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.request_body import BODY_WITHIN_S, MAX_BODY_BYTES, read_body
from tests.support.trio_test import trio_test

JSON = [(b"content-type", b"application/json; charset=utf-8")]


def request(*parts: bytes, headers=JSON, pause_s: float = 0.0) -> Request:
    messages = [
        {"type": "http.request", "body": part, "more_body": n < len(parts)}
        for n, part in enumerate(parts, start=1)
    ]

    async def receive() -> dict[str, object]:
        await trio.sleep(pause_s)
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    return Request({"type": "http", "headers": headers}, receive)


@trio_test(autojump=True)
async def test_a_body_comes_in_parts() -> None:
    assert await read_body(request(b"{", b"}")) == b"{}"


@trio_test(autojump=True)
async def test_other_types_and_large_bodies_are_refused() -> None:
    with pytest.raises(ApiRefusal) as caught:
        await read_body(request(b"{}", headers=[]))
    assert caught.value.status == 415
    declared = [*JSON, (b"content-length", str(MAX_BODY_BYTES + 1).encode())]
    for large in (request(headers=declared), request(*[b"x" * (1 << 20)] * 9)):
        with pytest.raises(ApiRefusal) as caught:
            await read_body(large)
        assert (caught.value.status, caught.value.code) == (413, "body_too_large")


@trio_test(autojump=True)
async def test_a_slow_body_has_a_deadline() -> None:
    slow = request(*[b"x"] * 100, pause_s=BODY_WITHIN_S / 10)
    with pytest.raises(ApiRefusal) as caught:
        await read_body(slow)
    assert (caught.value.status, caught.value.code) == (408, "body_too_slow")


@trio_test(autojump=True)
async def test_a_client_that_leaves_is_told_apart() -> None:
    with pytest.raises(ClientDisconnect):
        await read_body(request())
