"""The made-up MoE, small: both sizes and logits are what the benchmark counts on."""

from dataclasses import replace

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.logits import Logits
from p2pmoe.model.model import load_model
from p2pmoe.weights.model_file import open_model
from tests.benchmarks import synthetic_moe
from tests.benchmarks.synthetic_moe import SyntheticMoe, write_moe


def small(block_format: Format) -> SyntheticMoe:
    return SyntheticMoe(
        format=block_format, n_layer=3, n_embd=256, n_heads=4, n_expert=8, n_ff=256
    )


@pytest.mark.parametrize("name", ["Q4_0", "Q4_K", "Q8_0"])
def test_logits_are_finite_and_rows_differ(name, tmp_path):
    kernel = NumpyKernel()
    with open_model(write_moe(tmp_path / "moe.gguf", small(Format[name]))) as file:
        model, experts = load_model(file, kernel), LocalExperts.load(file, kernel)
    ids = [100, 137, 174, 211]
    logits = model.forward(ids, model.new_cache(8), experts, logits=Logits.ALL)
    assert 0.5 < logits.std() < 2
    assert len(set(logits.argmax(axis=1))) == len(ids)
    assert np.abs(np.corrcoef(logits) - np.eye(len(ids))).max() < 0.3


def test_sizes_are_told(tmp_path):
    moe = small(Format.Q4_0)
    n_bytes = write_moe(tmp_path / "moe.gguf", moe).stat().st_size
    assert moe.n_bytes < n_bytes < moe.n_bytes + (1 << 18)
    attention = 256 * (2 * 512 + 2 * 512) * 3
    indexer = 256 * (256 + 64) * 2
    feed_forward = 3 * 256 * 256 * 5 * 3
    output = 4096 * 256
    assert moe.active_weights == attention + indexer + feed_forward + output


def test_a_full_disk_is_told_before_writing(tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1 << 20})
    monkeypatch.setattr(synthetic_moe.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OSError, match="1 MiB free"):
        write_moe(tmp_path / "moe.gguf", small(Format.Q4_0))
    assert not list(tmp_path.iterdir())


class Counting:
    """Experts that count how often each is called."""

    def __init__(self, experts: LocalExperts, n_expert: int) -> None:
        self._experts = experts
        self.counts = np.zeros(n_expert, int)

    def begin(self, layer, hidden, routing):
        self.counts += np.bincount(routing.experts.ravel(), minlength=len(self.counts))
        return self._experts.begin(layer, hidden, routing)


def counts_of(path, moe) -> np.ndarray:
    kernel = NumpyKernel()
    with open_model(write_moe(path, moe)) as file:
        model, experts = load_model(file, kernel), LocalExperts.load(file, kernel)
        counting = Counting(experts, moe.n_expert)
        ids = [(100 + 37 * n) % 4000 for n in range(64)]
        model.forward(ids, model.new_cache(64), counting)
    return np.sort(counting.counts)[::-1]


def test_a_skewed_one_uses_some_experts_most(tmp_path):
    even = replace(small(Format.Q8_0), n_layer=2, n_expert=32, top_k=2)
    skewed = replace(even, skew=1.2)
    evenly = counts_of(tmp_path / "even.gguf", even)
    unevenly = counts_of(tmp_path / "skewed.gguf", skewed)
    assert evenly.sum() == unevenly.sum() == 64 * 2
    assert unevenly[:4].sum() > 1.5 * evenly[:4].sum()
    assert unevenly[:4].sum() > 64
