"""How well the model drafts for itself: agreement and tokens a pass, counted.

The pocket model with the hotter quarter, half and three quarters of each layer's
experts at hand, by use measured on another part of the text. The true text is what the
model says after held-out prompts, greedy and sampled; every third position of it is
drafted for, from the exact cache, until the draft differs. `alone` is routing among
what is at hand, `taught` with stand-ins that learned from the rows of other text.

    a     drafted tokens that are right, if all before them were
    g(k)  tokens that a pass commits with k drafts: one, and the right ones
    tree  the same for the best tree of as many rows, estimated from the ranks at which
          the true token stood in the draft's order

No times: the figures are the same in every run. Some minutes.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.select import choose_kernel
from p2pmoe.backbone.speculation.self_draft import SelfDraft
from p2pmoe.backbone.speculation.stand_in import StandIns
from p2pmoe.backbone.warm_up import WARM_UP_TEXT
from p2pmoe.model.experts import PendingExperts, Routing
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.logits import Logits
from p2pmoe.model.model import Model, load_model
from p2pmoe.model.noise import gumbel
from p2pmoe.model.sampler import SamplingSettings, sample
from p2pmoe.model.step import SequencePart
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.routing_traces import HELD_OUT, POCKET

__all__ = ["notes", "run"]

MODES = {
    "greedy": SamplingSettings(temperature=0.0),
    "T = 0.7": SamplingSettings(temperature=0.7, seed=5),
    "T = 1": SamplingSettings(temperature=1.0, seed=5),
}
SHARES = (0.25, 0.5, 0.75)
_MOST = 16  # drafts
_N_PROMPTS, _PROMPT, _TEXT, _EVERY = 8, 64, 160, 3
_TAUGHT = 4096  # rows
_CHUNK = 256


@dataclass
class Ground:
    """The model, its text and the use of its experts."""

    model: Model
    experts: LocalExperts
    kernel: Kernel
    ids: list[int]
    use: Mapping[int, np.ndarray] = field(default_factory=dict)


@dataclass
class Found:
    """What came of drafts: how many were right, and the rank of each true token."""

    accepted: list[int] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)

    def agreement(self) -> float:
        return float(np.mean(np.array(self.ranks) == 0))

    def tokens(self, k: int) -> float:
        return 1.0 + float(np.minimum(self.accepted, k).mean())


class _Noting:
    """An `ExpertCaller` that counts use, and teaches what absent experts add."""

    def __init__(self, ground: Ground, stand_ins: StandIns | None = None) -> None:
        self.used: dict[int, np.ndarray] = {}
        self.at_hand: Mapping[int, list[int]] = {}
        self._ground = ground
        self._stand_ins = stand_ins

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> PendingExperts:
        experts = self._ground.experts
        n_expert = self._ground.model.description.n_expert
        counts = np.bincount(routing.experts.ravel(), minlength=n_expert)
        self.used[layer] = self.used.get(layer, 0) + counts
        if self._stand_ins is not None:
            values = experts.products.routed(
                experts.layer(layer, range(n_expert)),
                routing.experts,
                hidden,
                experts.profile,
            )
            own = self.at_hand[layer]
            self._stand_ins.teach_values(layer, hidden, routing, values, own)
            self._stand_ins.settle()
        return experts.begin(layer, hidden, routing)


@cache
def ground() -> Ground:
    """Load the model and measure use over the text's first 8,192 tokens."""
    with open_model(POCKET) as file:
        kernel = choose_kernel(kernel_candidates(1)).open(0)
        model = load_model(file, kernel)
        experts = LocalExperts.load(file, kernel)
        for layer in model.description.moe_layers:
            experts.layer(layer, range(model.description.n_expert))
        text = HELD_OUT.read_text("utf-8") if HELD_OUT.exists() else WARM_UP_TEXT * 400
        ids = list(load_tokenizer(file).encode(text, bos=False))
    own = Ground(model, experts, kernel, ids)
    noting = _Noting(own)
    _read(own, noting, range(0, 8192, _CHUNK))
    own.use = noting.used
    return own


def _read(own: Ground, caller: _Noting, starts: range) -> None:
    for start in starts:
        cache = own.model.new_cache(_CHUNK)
        tokens = own.ids[start : start + _CHUNK]
        own.model.forward(tokens, cache, caller, logits=Logits.NONE)


@cache
def texts(mode: str) -> list[list[int]]:
    """Return what the model says after each prompt, prompts included."""
    own, settings = ground(), MODES[mode]
    starts = np.linspace(len(own.ids) // 3, len(own.ids) - _PROMPT, _N_PROMPTS)
    said = [own.ids[int(at) : int(at) + _PROMPT] for at in starts]
    caches = [own.model.new_cache(_PROMPT + _TEXT) for _ in said]
    rows = [list(tokens) for tokens in said]
    for _ in range(_TEXT):
        parts = [SequencePart(r, c) for r, c in zip(rows, caches, strict=True)]
        logits = own.model.step(parts, own.experts)
        for tokens, scores in zip(said, logits, strict=True):
            tokens.append(sample(scores[-1], settings, tokens, len(tokens)))
        rows = [tokens[-1:] for tokens in said]
    return said


@cache
def drafter(share: float, *, taught: bool) -> SelfDraft:
    """Return who drafts with the hotter part of each layer."""
    own = ground()
    n = round(share * own.model.description.n_expert)
    hot = {
        layer: np.argsort(-counts, kind="stable")[:n].tolist()
        for layer, counts in own.use.items()
    }
    stand_ins = None
    if taught:
        description = own.model.description
        stand_ins = StandIns(description.n_expert, description.n_embd)
        noting = _Noting(own, stand_ins)
        noting.at_hand = hot
        _read(own, noting, range(0, _TAUGHT, _CHUNK))
    layers = {
        layer: {index: own.experts.layer(layer, indices)[index] for index in indices}
        for layer, indices in hot.items()
    }
    return SelfDraft(
        own.model, layers.__getitem__, kernel=own.kernel, stand_ins=stand_ins
    )


@cache
def found(share: float, mode: str, *, taught: bool) -> Found:
    """Draft along the true texts."""
    own, source, result = ground(), drafter(share, taught=taught), Found()
    for tokens in texts(mode):
        kept = own.model.new_cache(len(tokens) + _MOST)
        own.model.forward(tokens[:_PROMPT], kept, own.experts, logits=Logits.NONE)
        for at in range(_PROMPT, len(tokens) - _MOST):
            if at % _EVERY == 0:
                _draft(source, tokens, at, kept.view(at), MODES[mode], result)
            own.model.forward(tokens[at : at + 1], kept, own.experts)
    return result


def _draft(source, tokens, at, view, settings, result: Found) -> None:
    """Draft what follows position `at`, until it differs from what is true."""
    n_right = 0
    while n_right < _MOST:
        [logits] = source.run([SequencePart([tokens[at + n_right]], view)])
        scores, place = logits[-1].astype(np.float64), at + n_right + 1
        if settings.temperature:
            scores /= settings.temperature
            scores += gumbel(settings.seed, place, np.arange(len(scores)))
        result.ranks.append(int((scores > scores[tokens[place]]).sum()))
        if result.ranks[-1]:
            break
        n_right += 1
    result.accepted.append(n_right)


def tree_tokens(ranks: list[int], n_rows: int) -> float:
    """Return what the best tree of `n_rows` drafts commits, the ranks being its own."""
    shares = [float(np.mean(np.array(ranks) == rank)) for rank in range(8)]
    total, heap = 1.0, [(-shares[0], 0, 1.0)]
    for _ in range(n_rows):
        chance, rank, parent = heapq.heappop(heap)
        total -= chance
        heapq.heappush(heap, (chance * shares[0], 0, -chance))
        if rank + 1 < len(shares):
            heapq.heappush(heap, (-parent * shares[rank + 1], rank + 1, parent))
    return total


def run() -> list[Figure]:
    """Return tokens a pass of eight drafts with half at hand, taught beside alone."""
    figures = []
    for mode in MODES:
        taught = found(0.5, mode, taught=True).tokens(8)
        alone = found(0.5, mode, taught=False).tokens(8)
        name = f"tokens a pass, half at hand, 8 drafts, {mode}"
        figures.append(figure(name, "tokens", [taught], baseline=[alone]))
    return figures


def notes() -> list[str]:
    """Return the whole table."""
    lines = [
        "| at hand | text | draft | a | g(1) | g(2) | g(4) | g(8) | g(16) | tree, 16 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for share in SHARES:
        for mode in MODES:
            for taught in (False, True):
                own = found(share, mode, taught=taught)
                cells = [f"{own.tokens(k):.2f}" for k in (1, 2, 4, 8, 16)]
                tree = tree_tokens(own.ranks, 16)
                lines.append(
                    f"| {share:.0%} | {mode} | {'taught' if taught else 'alone'} "
                    f"| {own.agreement():.3f} | {' | '.join(cells)} | {tree:.2f} |"
                )
    return lines
