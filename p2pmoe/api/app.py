"""The HTTP API: routes, who may call, readiness, and the way of a request.

    GET  /livez                 200 while the process runs
    GET  /readyz                200 when ready, else 503, both with the phase
    GET  /metrics               Prometheus text
    GET  /v1/models[/NAME]      the one model
    POST /v1/chat/completions   POST /v1/completions

With keys, everything but the two health pages asks for `Authorization: Bearer KEY`.
Without, the API is for this machine alone (`gates`).
"""

import secrets
from collections.abc import Callable, Sequence
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
from p2pmoe.api.chat import parse_chat
from p2pmoe.api.completions import CompletionAnswer, CompletionParts
from p2pmoe.api.errors import ApiRefusal, error_body, failure_body, retry_headers
from p2pmoe.api.gates import admit
from p2pmoe.api.keys import ApiKeys
from p2pmoe.api.metrics import ApiCounters, metrics_page
from p2pmoe.api.preparation import Asked, Prepared, prepare
from p2pmoe.api.request_body import MAX_BODY_BYTES, read_body
from p2pmoe.api.requests import ApiRequest
from p2pmoe.api.served_model import ServedModel
from p2pmoe.api.text_completions import parse_completion
from p2pmoe.backbone.generation import Generator, Phase, Readiness

__all__ = ["MAX_BODY_BYTES", "ApiParts", "build_app"]


def _random_seed() -> int:
    return secrets.randbits(63)


def _new_call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What the API is made of; `metrics` are further pages of samples.

    `model` returns None until the model is loaded; `keys` None makes the API local.
    """

    generator: Generator
    model: Callable[[], ServedModel | None]
    readiness: Callable[[], Readiness]
    clock: Clock
    metrics: Sequence[Callable[[], str]] = ()
    keys: ApiKeys | None = None
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
        client = self._admit(request)
        model = self._ready_model()
        body = await read_body(request)
        asked = Asked(fresh_seed=self._parts.new_seed(), client=client)

        def work() -> tuple[ApiRequest, Prepared]:
            parsed = parse(body)
            return parsed, prepare(parsed, model, asked)

        parsed, prepared = await trio.to_thread.run_sync(work)
        bodies = Bodies(
            kind=kind,
            id=f"{kind.value}-{secrets.token_hex(12)}",
            model=model.name,
            created_s=self._parts.clock.wall_us() // 1_000_000,
            tokenizer=model.tokenizer,
            new_call_id=_new_call_id,
            include_usage=parsed.options.include_usage,
            has_logprobs=parsed.n_top_logprobs is not None,
        )
        answering = CompletionParts(
            generator=self._parts.generator,
            tokenizer=model.tokenizer,
            counters=self._parts.counters,
            route=request.url.path,
        )
        return CompletionAnswer(
            answering, prepared, bodies, stream=parsed.options.stream
        )

    def _ready_model(self) -> ServedModel:
        now = self._parts.readiness()
        model = self._parts.model()
        if model is None or not now.takes_requests:
            raise ApiRefusal(
                f"not ready: {now.detail or now.phase.value}",
                code="not_ready",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
                headers=retry_headers(None),
            )
        return model

    def _admit(self, request: Request) -> str:
        return admit(request, self._parts.keys)


async def _refused(_: Request, error: Exception) -> Response:
    refusal = error if isinstance(error, ApiRefusal) else ApiRefusal(str(error))
    return JSONResponse(
        refusal.body(), status_code=refusal.status, headers=refusal.headers
    )


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


def _card(model: ServedModel) -> dict[str, object]:
    card: dict[str, object] = {
        "id": model.name,
        "object": "model",
        "created": model.created_s,
        "owned_by": "p2pmoe",
        "context_length": model.n_context,
    }
    if model.configuration is not None:
        card["p2pmoe"] = {"configuration": dict(model.configuration)}
    return card
