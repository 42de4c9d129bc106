"""What `--missing drop` costs, measured on the pocket model.

The figures are those of docs/explanation/missing-experts.md; half a minute. A weight
of 0 is the same as a call left out, to the bit (test_pending_layer.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from p2pmoe.backbone.missing import missing_share
from p2pmoe.evaluate.perplexity import chunks_of, perplexity
from p2pmoe.model.experts import ExpertCaller, PendingExperts, Routing
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import Model, load_model
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model
from tests.support.kernels import fastest_kernel
from tests.support.shared import shared_path

pytestmark = pytest.mark.slow


@dataclass
class Counting:
    """Counts how often each expert is called."""

    inner: ExpertCaller

    def __post_init__(self) -> None:
        self.counts: dict[int, np.ndarray] = {}

    def begin(self, layer: int, hidden: np.ndarray, routing: Routing) -> PendingExperts:
        counts = self.counts.setdefault(layer, np.zeros(32, np.int64))
        counts += np.bincount(routing.experts.ravel(), minlength=32)
        return self.inner.begin(layer, hidden, routing)


@dataclass
class Dropping:
    """Leaves an expert of each layer out of the tokens that can spare it."""

    inner: ExpertCaller
    gone: Mapping[int, int]
    bound: float
    scales: bool = False

    def begin(self, layer: int, hidden: np.ndarray, routing: Routing) -> PendingExperts:
        share = missing_share(routing, {self.gone[layer]})
        goes_on = (share > 0) & (share <= self.bound)
        is_left_out = goes_on[:, None] & (routing.experts == self.gone[layer])
        weights = np.where(is_left_out, np.float32(0), routing.weights)
        if self.scales:
            factor = np.where(goes_on & (share < 1), 1 / np.maximum(1 - share, 1e-6), 1)
            weights = (weights * factor[:, None]).astype(np.float32)
        left = Routing(experts=routing.experts, weights=weights)
        return self.inner.begin(layer, hidden, left)


def test_a_bound_bounds_the_loss_and_scaling_is_worse() -> None:
    text = shared_path("models/pocket/held-out.txt").read_text(encoding="utf-8")
    kernel = fastest_kernel()
    with open_model(shared_path("models/pocket/pocket-q8_0.gguf")) as file:
        ids = load_tokenizer(file).encode(text, bos=True)
        chunks = list(chunks_of(ids, ids[0]))[::3]
        model: Model = load_model(file, kernel)
        counting = Counting(LocalExperts.load(file, kernel))
        exact = perplexity(model, counting, chunks).value
        gone = {layer: int(n.argmax()) for layer, n in counting.counts.items()}

        def loss(bound: float, *, scales: bool = False) -> float:
            dropping = Dropping(counting.inner, gone, bound, scales)
            return perplexity(model, dropping, chunks).value / exact - 1

        assert exact == pytest.approx(40.748, abs=0.01)
        assert loss(0.3) == pytest.approx(0.0031, abs=0.0003)
        assert loss(1.0) == pytest.approx(0.0100, abs=0.0003)
        assert loss(1.0) < loss(1.0, scales=True) < 0.012
