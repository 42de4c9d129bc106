"""The model of `--draft`: opened once for all lanes, in memory taken from the experts.

Its weights and the keys and values that lanes keep of it come out of what `--ram` has
left where all experts fit, then of what is for experts in memory, of which it may take
half; without `--ram` there is no bound. One that cannot draft is told once, and nothing
is taken.
"""

from dataclasses import dataclass

from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.speculation.model_draft import (
    DraftModel,
    ModelDraft,
    open_draft,
)
from p2pmoe.speculating import SpeculationWish
from p2pmoe.text.tokenizer import Tokenizer

__all__ = ["DraftFile", "open_draft_file"]

_SHARE = 2  # of the experts' memory may be taken
_NO_BOUND = 1 << 62
_CACHE_TOKENS = 2048  # of keys and values that each lane keeps, at least
_CACHE_SHARE = 4  # of the memory for keys and values they may take beside


@dataclass(frozen=True, slots=True)
class DraftFile:
    """A draft model, and the bytes of keys and values that a lane may keep of it."""

    model: DraftModel
    cache_bytes: int

    def drafter(self) -> ModelDraft:
        """Return a lane's drafter."""
        return ModelDraft(self.model, self.cache_bytes)


def open_draft_file(
    wish: SpeculationWish, local: LocalSide, tokenizer: Tokenizer
) -> DraftFile | None:
    """Open what is wished; None if nothing is, or with a warning if it cannot draft.

    Before `LocalSide.warm_up`, which fills the memory that is left. `tokenizer` is the
    model's own: both must have the same tokens.
    """
    if wish.draft is None:
        return None
    options, hot = local.options, local.hot
    spare = max(0, (local.plan.hot or 0) - hot.budget_bytes)  # where all experts fit
    most = _NO_BOUND
    if options.ram_bytes is not None:
        most = spare + hot.budget_bytes // _SHARE
    model = open_draft(wish.draft, tokenizer, local.kernel, most)
    if model is None:
        return None
    per_token = model.model.description.kv_bytes_per_token
    cache_bytes = max(
        _CACHE_TOKENS * per_token, local.plan.kv // _CACHE_SHARE // options.n_lanes
    )
    if options.ram_bytes is not None:
        cache_bytes = min(cache_bytes, (most - model.n_bytes) // options.n_lanes)
        taken = model.n_bytes + cache_bytes * options.n_lanes
        hot.budget_bytes -= max(0, taken - spare)
    return DraftFile(model, cache_bytes)
