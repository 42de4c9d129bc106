"""Measuring a text over an API, against the same procedure in one process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.evaluate.asking import AnswerRefused
from p2pmoe.evaluate.errors import MeasurementFailed
from p2pmoe.evaluate.measure_text import TextPlan, measure_text
from p2pmoe.evaluate.perplexity import perplexity
from p2pmoe.evaluate.windows import Window
from p2pmoe.model.sampler import log_probabilities
from tests.support.evaluations import ScriptedApi, echo_document, streamed
from tests.support.mini_m3 import write_mini_m3
from tests.support.tiny_model import TinyModel, load_local
from tests.support.trio_test import trio_test


def plan_of(*prompts: tuple[int, ...] | str, n_continuations: int = 0) -> TextPlan:
    return TextPlan(
        sha256="ab" * 32,
        windows=[Window(prompt) for prompt in prompts],
        window_tokens=8,
        n_continuations=n_continuations,
        continuation_tokens=4,
    )


def ignore(label: str, share: float) -> None:
    del label
    assert 0.0 <= share <= 1.0


def echoing(own: TinyModel) -> ScriptedApi:
    """Return an API in front of a model, whose tokens are called by their ids."""

    def ask(_path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        ids = body["prompt"]
        logits = own.run(ids, own.model.new_cache(len(ids)))
        scores = log_probabilities(logits[:-1])
        answers = np.asarray(ids[1:], np.int64)
        return echo_document(
            [str(token) for token in ids],
            [None, *map(float, scores[np.arange(len(answers)), answers])],
            ["", *(str(top) for top in scores.argmax(axis=-1))],
        )

    return ScriptedApi(ask=ask)


@trio_test
async def test_the_figure_is_that_of_one_process(tmp_path: Path):
    own = load_local(write_mini_m3(tmp_path / "m.gguf"), NumpyKernel())
    chunks = [(0, 5, 9, 13, 17, 21, 25, 29), (0, 4, 8, 12, 16, 20, 24, 28)]
    oracle = perplexity(own.model, own.experts, chunks)
    found = await measure_text(echoing(own), plan_of(*chunks), ignore)
    assert found.figures["perplexity"] == pytest.approx(oracle.value, rel=1e-6)
    assert (found.input.n_windows, found.input.n_scored) == (2, oracle.n_scored)
    assert (found.input.cut_by, found.continuations) == ("ids", ())


@trio_test
async def test_continuations_are_greedy_from_half_of_a_window():
    api = ScriptedApi(
        ask=lambda *_: echo_document(["a", "b", "c"], [None, -1.0, -2.0]),
        stream=lambda *_: streamed(" on", n_tokens=3),
    )
    plan = plan_of((0, 1, 2, 3), (0, 4, 5, 6), n_continuations=1)
    found = await measure_text(api, plan, ignore)
    assert [c.text for c in found.continuations] == [" on"]
    assert found.continuations[0].tokens == (0, 1, 2)
    assert len(found.times) == 1
    path, body = api.seen[-1]
    assert path == "/v1/completions"
    assert body == {"prompt": [0, 1], "max_tokens": 4, "temperature": 0}
    assert api.seen[0][1] == {
        "prompt": [0, 1, 2, 3],
        "max_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": 1,
    }


@trio_test
async def test_pieces_of_text_are_asked_as_text():
    api = ScriptedApi(ask=lambda *_: echo_document(["a", "b", "c"], [None, -1.0, -2.0]))
    found = await measure_text(api, plan_of("abc"), ignore)
    assert found.input.cut_by == "characters"
    assert api.seen[0][1]["prompt"] == "abc"


@trio_test
async def test_a_window_that_is_refused_ends_it():
    def refuse(*_: object) -> Mapping[str, Any]:
        raise AnswerRefused("refused (400): echo is not supported")

    with pytest.raises(MeasurementFailed, match="echo is not supported"):
        await measure_text(ScriptedApi(ask=refuse), plan_of("abc"), ignore)
