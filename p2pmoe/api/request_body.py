"""The body of a POST: JSON by its type, of bounded size, within a bounded time."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus

import trio
from starlette.requests import ClientDisconnect, Request

from p2pmoe.api.errors import ApiRefusal

__all__ = ["BODY_WITHIN_S", "MAX_BODY_BYTES", "read_body"]

MAX_BODY_BYTES = 8 << 20
BODY_WITHIN_S = 60.0


async def read_body(request: Request) -> bytes:
    """Return the whole body.

    Raises:
        ApiRefusal: It is no JSON by its type, too large, or too slow.
        ClientDisconnect: The client left.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"content-type {kind[:40]!r} is not application/json"
        raise ApiRefusal(message, status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        with trio.fail_after(BODY_WITHIN_S):
            return await _gather(request)
    except trio.TooSlowError as exc:
        raise ApiRefusal(
            f"the body took longer than {BODY_WITHIN_S:.0f} s",
            code="body_too_slow",
            status=HTTPStatus.REQUEST_TIMEOUT,
            headers={"connection": "close"},
        ) from exc


async def _gather(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async with aclosing(_body_parts(request)) as stream:
        async for part in stream:
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise _too_large()
            parts.append(part)
    return b"".join(parts)


async def _body_parts(request: Request) -> AsyncGenerator[bytes]:
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        yield message.get("body", b"")
        more = message.get("more_body", False)


def _too_large() -> ApiRefusal:
    return ApiRefusal(
        f"the body is larger than {MAX_BODY_BYTES} bytes",
        code="body_too_large",
        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        headers={"connection": "close"},
    )
