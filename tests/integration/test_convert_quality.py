"""What the default precision is worth, measured on the pocket model.

The figures are those of docs/how-to/run-your-own-model.md; a quarter of a minute each
with a native kernel.
"""

from pathlib import Path

import pytest

from p2pmoe.evaluate.perplexity import chunks_of, perplexity
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import load_model
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model
from tests.support.command_line import run
from tests.support.kernels import fastest_kernel
from tests.support.shared import shared_path

pytestmark = pytest.mark.slow

FOUR = ("--experts", "Q4_0", "--router", "Q4_0", "--rest", "Q4_0")
ALL_FOUR = (*FOUR, "--embeddings", "Q4_0")


def measure(path: Path) -> float:
    text = shared_path("models/pocket/held-out.txt").read_text(encoding="utf-8")
    kernel = fastest_kernel()
    with open_model(path) as model:
        ids = load_tokenizer(model).encode(text, bos=True)
        own, experts = load_model(model, kernel), LocalExperts.load(model, kernel)
        return perplexity(own, experts, list(chunks_of(ids, ids[0]))).value


def test_four_bits_for_experts_alone_cost_less_than_for_everything(
    tmp_path: Path,
) -> None:
    source = shared_path("models/pocket/pocket-q8_0.gguf")
    mixed, all_four = tmp_path / "mixed.gguf", tmp_path / "all.gguf"
    for out, options in ((mixed, ()), (all_four, ALL_FOUR)):
        done = run("convert", str(source), str(out), *options)
        assert done.code == 0, done.err
    assert all_four.stat().st_size < mixed.stat().st_size < 0.64 * source.stat().st_size
    values = [measure(path) for path in (source, mixed, all_four)]
    assert values[0] == pytest.approx(40.597, abs=0.01)
    assert values[1] == pytest.approx(40.603, abs=0.02)
    assert values[2] == pytest.approx(40.889, abs=0.05)
    assert values[0] < values[1] < values[2] - 0.2
