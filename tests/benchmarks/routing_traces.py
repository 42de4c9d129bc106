"""Which experts a text uses, token by token: of a real model, and made up.

A trace is int [n_tokens, n_layers, top_k], experts ascending, as a decode asks for
them. Both are the same in every run.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.select import choose_kernel
from p2pmoe.backbone.warm_up import WARM_UP_TEXT
from p2pmoe.model.experts import ExpertCaller, PendingExperts, Routing
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import Model, load_model
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model

__all__ = ["Trace", "pocket_trace", "skewed_trace"]

_ROOT = Path(__file__).resolve().parents[2]
POCKET = _ROOT / "p2pmoe/models/pocket-q4_0.gguf"
HELD_OUT = _ROOT.parent / "shared/models/pocket/held-out.txt"
_CHUNK = 256  # tokens of a document


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What each token used; `guesses` is what the next router said a layer early.

    `guesses[t, l]` are experts of layer l + 1.
    """

    name: str
    n_expert: int
    experts: npt.NDArray[np.int64]  # [n_tokens, n_layers, top_k]
    guesses: npt.NDArray[np.int64] | None = None  # [n_tokens, n_layers - 1, top_k]

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """The experts numbered through all layers, as `experts`."""
        layers = np.arange(self.experts.shape[1])[None, :, None]
        return self.experts + layers * self.n_expert


class _Recorder:
    """An `ExpertCaller` that notes the routing and asks the next router early."""

    def __init__(self, inner: ExpertCaller, model: Model) -> None:
        self._inner = inner
        self._routers = dict(model.routers())
        self.layers = sorted(self._routers)
        self.used: dict[int, list[np.ndarray]] = {n: [] for n in self.layers}
        self.guessed: dict[int, list[np.ndarray]] = {n: [] for n in self.layers[1:]}

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> PendingExperts:
        self.used[layer].append(routing.experts)
        if layer + 1 in self.guessed:
            guess = self._routers[layer + 1].route(hidden).experts
            self.guessed[layer + 1].append(guess)
        return self._inner.begin(layer, hidden, routing)


def pocket_trace(n_tokens: int = 3072) -> Trace:
    """Record the pocket model's routing over held-out text, in chunks of 256 tokens.

    Without the text, over the words that a first start measures use with.
    """
    with open_model(POCKET) as file:
        kernel = choose_kernel(kernel_candidates(1)).open(0)
        model = load_model(file, kernel)
        recorder = _Recorder(LocalExperts.load(file, kernel), model)
        text = HELD_OUT.read_text("utf-8") if HELD_OUT.exists() else WARM_UP_TEXT * 90
        ids = load_tokenizer(file).encode(text, bos=False)
        n_chunks = n_tokens // _CHUNK
        step = max(_CHUNK, len(ids) // n_chunks)
        for number in range(n_chunks):
            chunk = [0, *ids[number * step : number * step + _CHUNK - 1]]
            model.forward(chunk, model.new_cache(len(chunk)), recorder)
        used = [np.concatenate(recorder.used[n]) for n in recorder.layers]
        guessed = [np.concatenate(recorder.guessed[n]) for n in recorder.layers[1:]]
        return Trace(
            name="pocket",
            n_expert=model.description.n_expert,
            experts=np.stack(used, axis=1),
            guesses=np.stack(guessed, axis=1),
        )


def skewed_trace(n_tokens: int = 3072, seed: int = 3) -> Trace:
    """Make routing as published traces have it: skewed, drifting, and persistent.

    8 layers of 64 experts, 6 a token. In each layer expert ranks follow Zipf (exponent
    1); every 400 tokens a new document moves the ranks (Gumbel noise of 0.7 on the
    logs); an expert of the last token stays with a chance of 0.35.
    """
    n_layers, n_expert, top_k, document, stays = 8, 64, 6, 400, 0.35
    rng = np.random.default_rng(seed)
    rank = np.stack([rng.permutation(n_expert) for _ in range(n_layers)])
    zipf = -np.log(rank + 1.0)
    trace = np.empty((n_tokens, n_layers, top_k), np.int64)
    topic, last = zipf, None
    for token in range(n_tokens):
        if token % document == 0:
            topic = zipf + 0.7 * rng.gumbel(size=zipf.shape)
        drawn = np.argsort(-(topic + rng.gumbel(size=zipf.shape)), axis=1)
        for layer in range(n_layers):
            kept = [] if last is None else last[layer][rng.random(top_k) < stays]
            fresh = drawn[layer][~np.isin(drawn[layer], kept)]
            chosen = np.concatenate([kept, fresh])[:top_k].astype(np.int64)
            trace[token, layer] = np.sort(chosen)
        last = trace[token]
    return Trace(name="skewed", n_expert=n_expert, experts=trace)
