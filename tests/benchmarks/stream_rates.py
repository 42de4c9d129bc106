"""Tokens a second of several concurrent streams and of one, all experts in memory.

What a request gets from the engine: queue, batch, sampling and hand-over to the task
that reads it, without HTTP. Each stream has a prompt of its own, and its prefill is in
the time. Rounds of both alternate, and disturbed ones are measured again (rounds.py).
"""

from functools import partial

import numpy as np
import trio

from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.model.sampler import SamplingSettings
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.rounds import Stopwatch, Timed, measured_rounds
from tests.support.backbone_model import Backbone, local_backbone

__all__ = ["stream_figures"]

_N_STREAMS = 8
_N_PROMPT, _N_TOKENS = 16, 128
_N_ROUNDS = 9
_TARGET = 3.0


def _requests(n_streams: int, n_vocab: int) -> list[GenerationRequest]:
    random = np.random.default_rng(1)
    return [
        GenerationRequest(
            prompt_ids=tuple(random.integers(5, n_vocab, _N_PROMPT).tolist()),
            sampling=SamplingSettings(temperature=0.0),
            max_tokens=_N_TOKENS,
        )
        for _ in range(n_streams)
    ]


async def _stream(backbone: Backbone, request: GenerationRequest) -> None:
    async with backbone.engine.generate(request) as run:
        n = 0
        async for step in run:
            n += len(step.tokens)
    if n != _N_TOKENS:
        raise RuntimeError(f"{n} tokens of {_N_TOKENS}")


async def _measured(side: LocalSide, n_streams: int) -> Timed:
    requests = _requests(n_streams, side.model.description.n_vocab)
    async with local_backbone(side, max_batch=_N_STREAMS) as backbone:
        watch = Stopwatch()
        async with trio.open_nursery() as nursery:
            for request in requests:
                nursery.start_soon(_stream, backbone, request)
        return watch.timed(n_streams * _N_TOKENS)


def stream_figures(side: LocalSide) -> list[Figure]:
    """Measure eight streams beside one; `side` has all experts in memory."""
    measures = [partial(trio.run, _measured, side, n) for n in (1, _N_STREAMS)]
    for measure in measures:
        measure()  # warms caches
    one, many = measured_rounds(measures, _N_ROUNDS)
    ratios = [b / a for a, b in zip(one, many, strict=True)]
    name = f"decode, {_N_STREAMS} streams, all local"
    return [
        figure(name, "tokens/s", many, baseline=one),
        figure(f"{name}, over 1", "x", ratios, at_least=_TARGET),
    ]
