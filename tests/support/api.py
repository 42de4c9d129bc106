"""A generator that speaks a script, and the API served over it on loopback.

`Script` says which blocks come, what happens after them, and remembers who entered
and left. `served` runs the API on a real socket; `call` runs blocking client code in
a thread.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
import trio

from p2pmoe.api.app import ApiParts
from p2pmoe.api.served_model import ServedModel
from p2pmoe.api.server import ListenAddress, serve_api
from p2pmoe.backbone.generation import (
    FailureKind,
    FinishReason,
    GenerationEnd,
    GenerationFailed,
    GenerationRequest,
    GenerationStep,
    Phase,
    Readiness,
    StepFigures,
    TierCalls,
    Timings,
    TokenConstraint,
    TokenLogprobs,
    TracedHash,
    Usage,
)
from p2pmoe.passes.values import PassTrace
from p2pmoe.text.template import ChatTemplate, TemplateLimits
from p2pmoe.text.tokenizer import Tokenizer, load_tokenizer
from tests.support.vocabularies import byte_level_metadata, vocabulary_file

__all__ = [
    "CHATML",
    "EOS",
    "FixedClock",
    "Script",
    "api_parts",
    "call",
    "served",
    "small_model",
    "small_tokenizer",
    "spell",
]

EOS = 2
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)
T = TypeVar("T")


class FixedClock:
    """A clock that stands."""

    def monotonic(self) -> float:
        return 0.0

    def wall_us(self) -> int:
        return 1_700_000_000_000_000


@dataclass
class Script:
    """A `Generator`: yields `blocks`, then raises `failure` or ends with `reason`."""

    blocks: list[tuple[int, ...]] = field(default_factory=list)
    others: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)  # by seed
    fails_after: dict[int, int] = field(default_factory=dict)  # blocks, by seed
    obeys: bool = False  # a constraint: what is not allowed becomes what is
    failure: BaseException | None = None
    reason: FinishReason | None = FinishReason.STOP
    delay_s: float = 0.0
    hang: bool = False
    requests: list[GenerationRequest] = field(default_factory=list)
    n_inside: int = 0
    n_steps: int = 0
    entered: trio.Event = field(default_factory=trio.Event)
    left: trio.Event = field(default_factory=trio.Event)

    @asynccontextmanager
    async def generate(self, request: GenerationRequest) -> AsyncIterator["_Run"]:
        self.requests.append(request)
        self.n_inside += 1
        self.entered.set()
        try:
            yield _Run(self, request)
        finally:
            self.n_inside -= 1
            self.left.set()


class _Run:
    def __init__(self, script: Script, request: GenerationRequest) -> None:
        self._script = script
        self._request = request

    async def __aiter__(self) -> AsyncIterator[GenerationStep]:
        script, seed = self._script, self._request.sampling.seed
        most = script.fails_after.get(seed)
        for number, block in enumerate(self._blocks()):
            if number == most:
                raise GenerationFailed(FailureKind.UPSTREAM_LOST, "a holder is gone")
            await trio.sleep(script.delay_s)
            script.n_steps += 1
            yield self._step(block)
        if self._script.hang:
            await trio.sleep_forever()
        if self._script.failure is not None:
            raise self._script.failure

    def _blocks(self) -> Iterable[tuple[int, ...]]:
        script = self._script
        blocks = script.others.get(self._request.sampling.seed, script.blocks)
        constraint = self._request.constraint
        if not script.obeys or constraint is None:
            return blocks
        return obeying(blocks, constraint(), self._request)

    def _step(self, block: tuple[int, ...]) -> GenerationStep:
        request = self._request
        n_top = request.n_top_logprobs
        return GenerationStep(
            tokens=block,
            logprobs=() if n_top is None else tuple(scored(t, n_top) for t in block),
            figures=FIGURES if request.explains else None,
            hashes=(HASH,) if request.traces else (),
            passes=(PASS,) if request.explains else (),
        )

    def prompt_logprobs(self) -> tuple[TokenLogprobs, ...]:
        if not self._request.scores_prompt:
            return ()
        n_top = self._request.n_top_logprobs or 0
        first, *rest = self._request.prompt_ids
        return (
            TokenLogprobs(token=first, logprob=None),
            *(scored(token, n_top) for token in rest),
        )

    def end(self) -> GenerationEnd:
        return GenerationEnd(
            finish_reason=self._script.reason,
            usage=Usage(prompt_tokens=len(self._request.prompt_ids)),
            timings=Timings(decode_s=2.0, calls=TierCalls(hub=3), round_trips=4),
        )


FIGURES = StepFigures(calls=TierCalls(hub=3), seconds=0.25, wait_s=0.125)
PASS = PassTrace(start_s=1.5, seconds=0.25, trips=2)
HASH = TracedHash(position=4, layer=1, expert=None, digest=bytes(range(8)))


def scored(token: int, n_top: int) -> TokenLogprobs:
    """A token with log probability -0.5, and the alternatives 100, 101, ..."""
    top = tuple((100 + n, -1.0 - n) for n in range(n_top))
    return TokenLogprobs(token=token, logprob=-0.5, top=top)


def obeying(
    blocks: Iterable[tuple[int, ...]],
    constraint: TokenConstraint,
    request: GenerationRequest,
) -> Iterator[tuple[int, ...]]:
    """The tokens of blocks one by one, the next allowed one where one is not."""
    for wanted in (token for block in blocks for token in block):
        allowed = constraint.allowed()
        ordered = np.roll(np.arange(len(allowed)), -wanted)
        token = int(ordered[np.argmax(allowed[ordered])])
        constraint.accept(token)
        yield (token,)
        if token in request.stop_ids:
            return


def small_tokenizer() -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        with vocabulary_file(Path(folder), byte_level_metadata()) as model:
            return load_tokenizer(model)


_TOKENIZER = small_tokenizer()


def small_model(n_context: int = 64, template: str | None = CHATML) -> ServedModel:
    limits = TemplateLimits(max_characters=100_000)
    made = None
    if template is not None:
        made = ChatTemplate(template, _TOKENIZER, limits, monotonic=lambda: 0.0)
    return ServedModel(
        name="small",
        n_context=n_context,
        tokenizer=_TOKENIZER,
        template=made,
        created_s=1_700_000_000,
    )


def spell(text: str) -> list[tuple[int, ...]]:
    """One block for each token of a text."""
    return [(token,) for token in _TOKENIZER.encode(text, bos=False)]


def api_parts(script: Script, **changes: Any) -> ApiParts:
    model = changes.pop("model", small_model())
    readiness = changes.pop("readiness", Readiness(phase=Phase.READY, covered=1.0))
    return ApiParts(
        generator=script,
        model=lambda: model,
        readiness=lambda: readiness,
        clock=FixedClock(),
        new_seed=lambda: 7,
        **changes,
    )


@asynccontextmanager
async def served(parts: ApiParts) -> AsyncIterator[httpx.AsyncClient]:
    """Serve on a free port of loopback; yield a client of it."""
    async with trio.open_nursery() as nursery:
        address = await nursery.start(serve_api, parts, ListenAddress("127.0.0.1", 0))
        url = f"http://127.0.0.1:{address.port}"
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            yield client
        nursery.cancel_scope.cancel()


async def call(function: Callable[[], T]) -> T:
    return await trio.to_thread.run_sync(function)
