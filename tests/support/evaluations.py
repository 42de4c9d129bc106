"""Runs, configurations, and servers that answer by a script."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from p2pmoe.evaluate.asking import Streamed
from p2pmoe.evaluate.configuration import Configuration, read_configuration
from p2pmoe.evaluate.latency import StreamTimes
from p2pmoe.evaluate.run_record import (
    Continuation,
    EvaluationRun,
    SetInput,
    TaskResult,
    TextInput,
    WindowScore,
)

__all__ = [
    "CONFIGURATION",
    "RUN",
    "ScriptedApi",
    "answering",
    "changed",
    "echo_document",
    "streamed",
]

CONFIGURATION = Configuration(
    architecture="minimax-m3",
    fingerprint="ab" * 32,
    weights="cd" * 32,
    formats={"routed experts": "Q4_0 x 21", "router": "F32 x 14"},
    network=False,
    manifest=False,
    ram_bytes=None,
    disk_cache_bytes=None,
    disk="fallback",
    disk_access="read",
    n_context=0,
    profile="r16",
    missing="wait",
    drop_bound=0.0,
    tokenizer="fedcba9876543210",
    template="",
    p2pmoe="0.1.0",
    arithmetic="0123456789abcdef",
    numpy="2.0.0",
)

RUN = EvaluationRun(
    made="2026-11-30T03:00:00Z",
    model="pocket",
    configuration=read_configuration(CONFIGURATION.document()),
    text=TextInput(
        sha256="12" * 32,
        cut_by="ids",
        window_tokens=8,
        n_windows=2,
        n_scored=6,
        n_continuations=1,
        continuation_tokens=4,
        tokens="34" * 16,
    ),
    tasks_from=SetInput(sha256="56" * 32, n_tasks=2),
    figures={"perplexity": 40.5, "answer_accuracy": 0.5, "first_token_p50_s": 0.01},
    windows=(
        WindowScore(logprobs=(-1.0, -2.0, -3.0), top=(" a", " b", " c")),
        WindowScore(logprobs=(-0.5, -0.25, 0.0), top=(" d", " e", " f")),
    ),
    continuations=(Continuation(text=" a b", tokens=(1, 2)),),
    tasks=(
        TaskResult(
            id="one", kind="answer", figures={"answer_accuracy": 1.0}, answer="yes"
        ),
        TaskResult(id="two", kind="answer", figures={"answer_accuracy": 0.0}),
    ),
)


def streamed(text: str, *, n_tokens: int = 2) -> Streamed:
    """Return an answer whose pieces came after 0.1 and 0.2 seconds."""
    times = StreamTimes(pieces_s=(0.1, 0.2), n_tokens=n_tokens)
    return Streamed(text=text, times=times, tokens=tuple(range(n_tokens)))


class ScriptedApi:
    """An API whose answers are functions of the path and the body; keeps what came."""

    def __init__(
        self,
        ask: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] | None = None,
        stream: Callable[[str, Mapping[str, Any]], Streamed] | None = None,
    ) -> None:
        self._ask = ask
        self._stream = stream
        self.seen: list[tuple[str, dict[str, Any]]] = []

    async def ask(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self.seen.append((path, dict(body)))
        assert self._ask is not None, "nobody was to ask"
        return self._ask(path, body)

    async def stream(self, path: str, body: Mapping[str, Any]) -> Streamed:
        self.seen.append((path, dict(body)))
        assert self._stream is not None, "nobody was to stream"
        return self._stream(path, body)


def answering(*texts: str) -> ScriptedApi:
    """Return an API that streams these texts, one a request."""
    left = list(texts)
    return ScriptedApi(stream=lambda _path, _body: streamed(left.pop(0)))


def echo_document(
    tokens: Sequence[str],
    logprobs: Sequence[float | None],
    top: Sequence[str] | None = None,
    *,
    n_generated: int = 1,
) -> dict[str, Any]:
    """Return a completion with `echo` and `logprobs`, and generated tokens behind."""
    tops = list(tokens if top is None else top)
    offsets = [sum(map(len, tokens[:n])) for n in range(len(tokens) + n_generated)]
    told = {
        "tokens": [*tokens, *["?"] * n_generated],
        "text_offset": offsets,
        "token_logprobs": [*logprobs, *[-9.0] * n_generated],
        "top_logprobs": [
            None if n == 0 else {each: -0.5, "worse": -5.0}
            for n, each in enumerate([*tops, *["?"] * n_generated])
        ],
    }
    return {
        "choices": [{"text": "".join(tokens), "logprobs": told}],
        "usage": {"prompt_tokens": len(tokens), "completion_tokens": n_generated},
    }


def changed(run: EvaluationRun = RUN, **fields: Any) -> EvaluationRun:
    """Return a run of the same configuration with other values of some fields."""
    own = dataclasses.replace(CONFIGURATION, **fields)
    return dataclasses.replace(run, configuration=read_configuration(own.document()))
