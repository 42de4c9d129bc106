"""Workers whose vouchers were closed and released in November, ready to be paid.

Vouchers are small (some hundred micro-credits), so tests use rates at which these are
some cents. Everything is derived: the same world each time.
"""

import copy
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ledger.periods import parse_period
from ledger.store import Store
from tests.support.ledger_world import DAY_US, Party, World

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DECEMBER_US", "RATE", "PaidWorld", "copied", "payee_rows"]

DECEMBER_US = parse_period("2026-12").start_us
RATE = "1 credit = 1000 EUR"  # 10 micro-credits are a cent


class PaidWorld(World):
    """A world of `n_workers`, worker `n` with `n + 1` servings in one final voucher.

    `then` does more to it, once November is closed.
    """

    def __init__(
        self,
        path: Path,
        n_workers: int = 3,
        then: "Callable[[PaidWorld, Store], None] | None" = None,
    ) -> None:
        super().__init__()
        self.path, self.then = path, then
        self.workers = [Party(f"worker {n}") for n in range(n_workers)]
        self.n_tabs = 0
        with self.open(path) as store:
            for n, worker in enumerate(self.workers):
                self.serve(store, worker, n + 1)
            self.now_us += 3 * DAY_US
            store.tend()
            self.now_us = DECEMBER_US
            store.operate("period.close", {"name": "2026-11"}).result(60)
            if then is not None:
                then(self, store)

    def serve(self, store: Store, worker: Party, n_servings: int) -> int:
        """File one final voucher; return its amount, pending until it is released."""
        self.n_tabs += 1
        issued = store.grant(self.order(worker=worker)).result(60)
        tab = self.tab(issued, worker=worker, tab=b"tab-%04d" % self.n_tabs)
        filed = tab.file(store, *range(n_servings), final=True)
        assert filed.reason == "", filed
        assert tab.previous is not None
        return tab.previous.amount_uc


def copied(world: PaidWorld, path: Path) -> PaidWorld:
    """Return the same world on a copy of its folder; the first stays as it is.

    A database that is not in the folder is not copied with it: it is made again.
    """
    if (world.path / "database.url").exists():
        return PaidWorld(path, len(world.workers), world.then)
    shutil.copytree(world.path, path, dirs_exist_ok=True)
    twin = copy.copy(world)
    twin.path = path
    return twin


def payee_rows(*workers: Party) -> list[dict[str, object]]:
    """Return the `payees` of an operation: each worker under its own name."""
    return [{"worker": one.id.hex(), "destination": one.name} for one in workers]
