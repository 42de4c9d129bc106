"""What the API costs beside the model: text, frames, and answers by a grammar.

A vocabulary of 200,000 tokens, made of pairs of the pocket model's, stands for a large
model's. The baseline of a grammar's step is one draw from as many logits, which every
token takes anyway.
"""

import dataclasses
import json
import time
from collections.abc import Callable

import numpy as np
import trio

from p2pmoe.grammar.grammars import Grammars
from p2pmoe.model.sampler import SamplingSettings, sample
from p2pmoe.text.tokenizer import Tokenizer, load_tokenizer
from p2pmoe.text.vocabulary import TokenKind
from p2pmoe.weights.model_file import open_model
from tests.benchmarks.figures import Figure, figure
from tests.p2pmoe.api.test_completions import Exchange
from tests.support.api import Script
from tests.support.openai_checks import POCKET, WEATHER

__all__ = ["run"]

_N_VOCAB = 200_000
_ROUNDS = 5
_STEPS = 150
_SCHEMA = json.dumps(WEATHER["function"]["parameters"])
_ANY = '{"type": "object"}'


def run() -> list[Figure]:
    """Measure all figures."""
    tokenizer = _large()
    firsts, schemas, steps = [], [], []
    for seed in range(_ROUNDS):
        grammars = Grammars(tokenizer)
        firsts.append(_taken(lambda own=grammars: own.json(_ANY)))
        schemas.append(_taken(lambda own=grammars: own.json(_SCHEMA)) * 1e3)
        steps.append(_step_us(grammars, seed, tokenizer.vocabulary.stop_ids))
    draws = [_draw_us(seed) for seed in range(_ROUNDS)]
    frames = [_frame_us() for _ in range(_ROUNDS)]
    return [
        figure("first grammar of a model, 200,000 tokens", "s", firsts),
        figure("a further schema", "ms", schemas),
        figure("a grammar's step", "us", steps, baseline=draws),
        figure("a token to a frame of a stream", "us", frames),
    ]


def _large() -> Tokenizer:
    with open_model(POCKET) as model:
        small = load_tokenizer(model)
    texts = dict.fromkeys(small.vocabulary.texts)
    random = np.random.default_rng(0)
    while len(texts) < _N_VOCAB:
        left, right = random.integers(1, small.n_vocab, 2)
        texts[small.vocabulary.texts[left] + small.vocabulary.texts[right]] = None
    more = len(texts) - small.n_vocab
    kinds = (*small.vocabulary.kinds, *[TokenKind.NORMAL] * more)
    return Tokenizer(
        dataclasses.replace(small.vocabulary, texts=tuple(texts), kinds=kinds)
    )


def _taken(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _step_us(grammars: Grammars, seed: int, stop_ids: frozenset[int]) -> float:
    """The mean step of a model with no mind, text of any object."""
    constraint = grammars.json(_ANY).start()
    random = np.random.default_rng(seed)
    taken = []
    for _ in range(_STEPS):
        began = time.perf_counter()
        allowed = constraint.allowed()
        taken.append(time.perf_counter() - began)
        token = int(random.choice(np.flatnonzero(allowed)))
        if token in stop_ids:
            constraint = grammars.json(_ANY).start()
        else:
            constraint.accept(token)
    return float(np.mean(taken)) * 1e6


def _draw_us(seed: int) -> float:
    logits = np.random.default_rng(seed).normal(size=_N_VOCAB).astype(np.float32)
    settings = SamplingSettings(temperature=0.8, seed=seed)
    return _taken(lambda: [sample(logits, settings, (), n) for n in range(20)]) * 5e4


def _frame_us() -> float:
    n_tokens = 50

    async def stream() -> None:
        for _ in range(20):
            script = Script(blocks=[(100,)] * n_tokens)
            await Exchange().run(script, stream=True, max_tokens=n_tokens)

    return _taken(lambda: trio.run(stream)) / (20 * n_tokens) * 1e6
