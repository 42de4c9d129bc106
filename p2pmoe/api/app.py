"""The HTTP API: routes, who may call, readiness, and the way of a request.

    GET  /livez                 200 while the process runs
    GET  /readyz                200 when ready, else 503, both with the phase
    GET  /metrics               Prometheus text
    GET  /v1/models[/NAME]      the one model
    POST /v1/chat/completions   POST /v1/completions

With a key, everything but the two health pages asks for `Authorization: Bearer KEY`.
Without one, the API is for this machine: a request whose Host is another name is
refused, so that no web page can reach it by a name that it controls.
"""

import hmac
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mobile_worker.clock import Clock
from p2pmoe.api.bodies import Bodies, CompletionKind
from p2pmoe.api.completions import CompletionAnswer, CompletionParts
from p2pmoe.api.errors import ApiRefusal, error_body, failure_body
from p2pmoe.api.metrics import ApiCounters, metrics_page
from p2pmoe.api.preparation import Prepared, ServedModel, prepare
from p2pmoe.api.requests import ApiRequest, parse_chat, parse_completion
from p2pmoe.backbone.generation import Generator, Phase, Readiness

__all__ = ["MAX_BODY_BYTES", "ApiParts", "build_app"]

MAX_BODY_BYTES = 8 << 20

_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OPEN_PAGES = frozenset({"/livez", "/readyz"})


def _random_seed() -> int:
    return secrets.randbits(63)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What the API is made of; `metrics` are further pages of samples.

    `model` returns None until the model is loaded; `key` None makes the API local.
    """

    generator: Generator
    model: Callable[[], ServedModel | None]
    readiness: Callable[[], Readiness]
    clock: Clock
    metrics: Sequence[Callable[[], str]] = ()
    key: str | None = None
    counters: ApiCounters = field(default_factory=ApiCounters)
    new_seed: Callable[[], int] = _random_seed


def build_app(parts: ApiParts) -> ASGIApp:
    """Return the ASGI application."""
    routes = _Routes(parts)
    return Starlette(
        routes=[
            Route("/livez", routes.livez),
            Route("/readyz", routes.readyz),
            Route("/metrics", routes.metrics),
            Route("/v1/models", routes.models),
            Route("/v1/models/{name:path}", routes.model),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/v1/completions", routes.completions, methods=["POST"]),
        ],
        exception_handlers={
            ApiRefusal: _refused,
            HTTPException: _http_error,
            ClientDisconnect: _gone,
            Exception: _internal_error,
        },
    )


class _Routes:
    """The endpoints; each checks who calls first."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts

    async def livez(self, request: Request) -> Response:
        self._admit(request)
        return PlainTextResponse("alive\n")

    async def readyz(self, request: Request) -> Response:
        self._admit(request)
        now = self._parts.readiness()
        ready = now.phase is Phase.READY and not now.is_damaged
        body = {
            "ready": ready,
            "phase": now.phase.value,
            "covered": now.covered,
            "detail": now.detail,
        }
        status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
        return JSONResponse(body, status_code=status)

    async def metrics(self, request: Request) -> Response:
        self._admit(request)
        page = metrics_page(self._parts.counters, self._parts.metrics)
        return PlainTextResponse(page, media_type="text/plain; version=0.0.4")

    async def models(self, request: Request) -> Response:
        self._admit(request)
        model = self._parts.model()
        cards = [] if model is None else [_card(model)]
        return JSONResponse({"object": "list", "data": cards})

    async def model(self, request: Request) -> Response:
        self._admit(request)
        model = self._parts.model()
        name = request.path_params["name"]
        if model is None or model.name != name:
            raise ApiRefusal(
                f"model {name[:80]!r} is not served here",
                param="model",
                code="model_not_found",
                status=HTTPStatus.NOT_FOUND,
            )
        return JSONResponse(_card(model))

    async def chat(self, request: Request) -> ASGIApp:
        return await self._complete(request, CompletionKind.CHAT, parse_chat)

    async def completions(self, request: Request) -> ASGIApp:
        return await self._complete(request, CompletionKind.TEXT, parse_completion)

    async def _complete(
        self,
        request: Request,
        kind: CompletionKind,
        parse: Callable[[bytes], ApiRequest],
    ) -> ASGIApp:
        self._admit(request)
        model = self._ready_model()
        body = await _read_body(request)
        seed = self._parts.new_seed()

        def work() -> tuple[ApiRequest, Prepared]:
            parsed = parse(body)
            return parsed, prepare(parsed, model, seed)

        parsed, prepared = await trio.to_thread.run_sync(work)
        bodies = Bodies(
            kind=kind,
            id=f"{kind.value}-{secrets.token_hex(12)}",
            model=model.name,
            created_s=self._parts.clock.wall_us() // 1_000_000,
            include_usage=parsed.include_usage,
        )
        answering = CompletionParts(
            generator=self._parts.generator,
            tokenizer=model.tokenizer,
            counters=self._parts.counters,
            route=request.url.path,
        )
        return CompletionAnswer(answering, prepared, bodies, stream=parsed.stream)

    def _ready_model(self) -> ServedModel:
        now = self._parts.readiness()
        model = self._parts.model()
        if model is None or now.phase is not Phase.READY:
            raise ApiRefusal(
                f"not ready: {now.detail or now.phase.value}",
                code="not_ready",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
            )
        return model

    def _admit(self, request: Request) -> None:
        key = self._parts.key
        if key is None:
            _admit_local(request)
        elif request.url.path not in _OPEN_PAGES:
            _admit_key(request, key)


async def _refused(_: Request, error: Exception) -> Response:
    refusal = error if isinstance(error, ApiRefusal) else ApiRefusal(str(error))
    headers = {"connection": "close"} if refusal.code == "body_too_large" else None
    return JSONResponse(refusal.body(), status_code=refusal.status, headers=headers)


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else "error"
    message = f"{request.method} {request.url.path[:80]}: {detail}"
    return JSONResponse(
        error_body(message, "invalid_request_error"), status_code=status
    )


async def _gone(_: Request, error: Exception) -> Response:
    """Answer a client that left in mid-request; nobody reads it."""
    del error
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def _internal_error(_: Request, error: Exception) -> Response:
    body = failure_body(error)
    return JSONResponse(body, status_code=HTTPStatus.INTERNAL_SERVER_ERROR)


async def _read_body(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"content-type {kind[:40]!r} is not application/json"
        raise ApiRefusal(message, status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > MAX_BODY_BYTES:
        raise _too_large()
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
    )


def _admit_local(request: Request) -> None:
    host = request.headers.get("host", "")
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.split(":")[0]
    if name.lower() not in _LOCAL_HOSTS:
        raise ApiRefusal(
            f"host {host[:80]!r} is not this machine; serve with an API key",
            code="host_not_allowed",
            status=HTTPStatus.FORBIDDEN,
        )


def _admit_key(request: Request, key: str) -> None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    right = hmac.compare_digest(given.strip().encode(), key.encode())
    if scheme.lower() != "bearer" or not right:
        raise ApiRefusal(
            "the API key is missing or wrong",
            code="invalid_api_key",
            status=HTTPStatus.UNAUTHORIZED,
        )


def _card(model: ServedModel) -> dict[str, object]:
    return {
        "id": model.name,
        "object": "model",
        "created": model.created_s,
        "owned_by": "p2pmoe",
        "context_length": model.n_context,
    }
