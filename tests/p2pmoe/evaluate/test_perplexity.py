import math
import re
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.evaluate.perplexity import chunks_of, perplexity
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import load_model
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model
from tests.support.kernels import fastest_kernel
from tests.support.mini_m3 import write_mini_m3
from tests.support.shared import shared_path
from tests.support.tiny_model import TinyModel


def open_both(path: Path, kernel: Kernel) -> TinyModel:
    with open_model(path) as model_file:
        return TinyModel(
            load_model(model_file, kernel), LocalExperts.load(model_file, kernel)
        )


def test_whole_chunks_begin_with_bos_in_place_of_their_first_id() -> None:
    assert list(chunks_of([9, 1, 2, 3, 4, 5, 6, 7, 8], 0, 4)) == [
        [0, 1, 2, 3],
        [0, 5, 6, 7],
    ]
    assert list(chunks_of([1, 2, 3], 0, 4)) == []


def test_the_second_half_is_scored_one_token_at_a_time(tmp_path: Path) -> None:
    own = open_both(write_mini_m3(tmp_path / "m.gguf"), NumpyKernel())
    chunks = [[0, 5, 9, 13, 17, 21, 25, 29], [0, 4, 8, 12, 16, 20, 24, 28]]
    losses = []
    for chunk in chunks:
        cache = own.model.new_cache(8)
        for i, token in enumerate(chunk[:-1]):
            logits = own.run([token], cache)[0].astype(np.float64)
            if i >= 4:
                odds = np.exp(logits - logits.max())
                losses.append(-math.log(odds[chunk[i + 1]] / odds.sum()))
    found = perplexity(own.model, own.experts, chunks)
    assert (found.n_chunks, found.n_scored) == (2, 6)
    assert len(losses) == 6
    assert math.isclose(found.value, math.exp(sum(losses) / 6), rel_tol=1e-9)


@pytest.mark.parametrize("chunks", [[], [[0, 1, 2]]])
def test_nothing_to_score_is_an_error(tmp_path: Path, chunks: list[list[int]]) -> None:
    own = open_both(write_mini_m3(tmp_path / "m.gguf"), NumpyKernel())
    with pytest.raises(ValueError, match="score"):
        perplexity(own.model, own.experts, chunks)


def held_out_chunks(name: str) -> list[list[int]]:
    text = shared_path("models/pocket/held-out.txt").read_text(encoding="utf-8")
    with open_model(shared_path(f"models/pocket/{name}.gguf")) as model_file:
        ids = load_tokenizer(model_file).encode(text, bos=True)
    assert len(ids) == 67_013
    return list(chunks_of(ids, ids[0]))


# The README of the pocket models: llama.cpp's figure for each file.
FIGURES = {
    "pocket-q8_0": 40.585,
    "pocket-q4_0": 40.634,
    "pocket-mxfp4": 40.607,
    "pocket-q4_k_m": 40.643,
    "pocket-iq4_xs": 40.676,
    "pocket-q2_k": 41.272,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_within_one_percent_of_llama_cpp(name: str) -> None:
    """The whole held-out text, r16; half a minute each with a native kernel."""
    own = open_both(shared_path(f"models/pocket/{name}.gguf"), fastest_kernel())
    found = perplexity(own.model, own.experts, held_out_chunks(name))
    assert (found.n_chunks, found.n_scored) == (261, 33_147)
    assert abs(found.value / FIGURES[name] - 1.0) < 0.01, found.value


def test_the_figures_are_the_readmes() -> None:
    text = shared_path("models/pocket/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (pocket-\w+)\.gguf.*?\| ([\d.]+) \|", text, re.MULTILINE)
    assert {name: float(value) for name, value in rows} == FIGURES
