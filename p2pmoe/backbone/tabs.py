"""What all accounts have in common, one of them, and the tab of one worker process.

State only.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from ledger.grant import Grant
from p2pmoe.backbone.books import Book
from relay.keys import PeerId

__all__ = ["ServingTotals", "SettlementTerms", "Tab", "WorkerAccount"]


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


@dataclass(slots=True, kw_only=True, eq=False)
class WorkerAccount:
    """Everything about one worker."""

    tab: Tab | None = None
    grants: dict[bytes, Grant] = field(default_factory=dict)  # all ever, by hash
    open: list[Grant] = field(default_factory=list)  # that have room, oldest first
    of_run: set[bytes] = field(default_factory=set)  # handed over by this process
    used_uc: int = 0  # of the open ones, numbered and not abandoned
    claimed_uc: dict[bytes, int] = field(default_factory=dict)  # in this run's vouchers
    at_risk: int = 0
    withheld: bool = False
    paused: bool = False  # the worker said NO_GRANT; until the next grant or receipt
    wanted: bool = False  # a grant request is under way

    def prune(self, kept: Collection[bytes]) -> None:
        """Forget grants at prices that are not among those kept, named by hash."""
        grants = self.grants.items()
        self.grants = {n: g for n, g in grants if g.price_table_hash in kept}
        self.of_run &= self.grants.keys()
        for name in self.claimed_uc.keys() - self.grants.keys():
            del self.claimed_uc[name]
