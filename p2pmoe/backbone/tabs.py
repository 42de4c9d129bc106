"""What all accounts have in common, and the tab of one worker process. State only."""

from dataclasses import dataclass, field

from p2pmoe.backbone.books import Book
from relay.keys import PeerId

__all__ = ["ServingTotals", "SettlementTerms", "Tab"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementTerms:
    """What all our tabs have in common."""

    network: bytes
    manifest_hash: bytes
    profile: int
    backbone: PeerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingTotals:
    """Servings since the accounts were opened."""

    accepted: int
    receipted: int
    unsigned_at_kill: int


@dataclass(slots=True, kw_only=True, eq=False)
class Tab:
    """One worker process's running account with us."""

    worker: PeerId
    tab: bytes
    next_serving: int = 0
    live: bool = True
    books: dict[int, Book] = field(default_factory=dict)  # by price epoch

    @property
    def is_used(self) -> bool:
        """Whether any serving of it was numbered."""
        return self.next_serving > 0 or bool(self.books)
