"""All the places where an expert can be computed, as the decode threads share them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.profiles import Profile, result_row_bytes
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.disk_experts import DiskExperts
from p2pmoe.backbone.exchange import CheckTicket, LayerWork
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.plan import Holder
from p2pmoe.backbone.prefetch.fetch_work import Fetching
from p2pmoe.backbone.prefetch.prefetching import Prefetching
from p2pmoe.backbone.use import UseCounts
from p2pmoe.config import DiskPolicy, MissingPolicy
from p2pmoe.weights.expert_file import ExpertFile

__all__ = ["ExpertPlaces", "Holders", "Network"]


class Holders(Protocol):
    """Who can be asked for which expert; a `Fleet` is one."""

    def holders(self, layer: int) -> Mapping[int, tuple[Holder, ...]]:
        """Return the askable holders of each expert of a layer (any thread)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The way to remote experts; both callables may be called from any thread.

    `fetching` is the way to their weights; None: they cannot be had.
    """

    fleet: Holders
    submit: Callable[[LayerWork], None]
    report: Callable[[CheckTicket, bool | None], None]  # None: it could not be compared
    fetching: Fetching | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertPlaces:
    """Everything that can compute an expert, shared by all lanes.

    `missing` says what becomes of a step that needs an expert which is nowhere;
    `drop_bound` is the largest share (0 to 1) of a token's routed weight in a layer
    that may be left out under `MissingPolicy.DROP`. With `overlap` the lanes compute
    while workers do; without it, everything is done in turn (for measurements).
    """

    kernel: Kernel
    profile: Profile
    n_embd: int
    file: ExpertFile
    hot: HotSet
    disk: DiskExperts
    policy: DiskPolicy
    cost: LocalCost
    use: UseCounts
    network: Network | None = None
    missing: MissingPolicy = MissingPolicy.WAIT
    drop_bound: float = 0.0
    overlap: bool = True
    prefetch: Prefetching | None = None

    @property
    def row_bytes(self) -> int:
        """What one (expert, row) pair of a dispatch adds to both directions, about."""
        return self.n_embd * 36 // 32 + result_row_bytes(self.profile, self.n_embd)
