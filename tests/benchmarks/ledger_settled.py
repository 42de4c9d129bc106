"""Ten million servings through settlement alone, and what the books say after.

Many workers, each with one tab: leaves as both ends make them, a voucher each 256
servings, some servings never accepted, some vouchers filed twice; then the finals, the
dispute window and the holdback's time, by a clock of the run's own. What must have been
paid is added up apart from the ledger, leaf by leaf, and compared to the last unit.
"""

import dataclasses
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import cycle
from pathlib import Path

from sqlalchemy import func, select

from ledger.accounts import AccountKind, TransferCode
from ledger.balances import balances
from ledger.claims import Filed, FiledStatus
from ledger.database import Reader
from ledger.leaf import LeafPacker
from ledger.policy import Policy
from ledger.schema import filing, transfer
from ledger.schema_closing import closing
from ledger.store import Store
from ledger.tally import Tally
from ledger.voucher import SignedVoucher
from tests.support.ledger_world import Party, TabSide, World

__all__ = ["Settled", "settle"]

_LEAVES = 256  # of one voucher
_N_WORKERS = 64
_HOLE = 97  # every so manieth serving was never accepted
_TWICE = 50  # every so manieth voucher is filed by both sides
_WAITING = 512  # filings under way
_HOUR_US = 3_600_000_000
_TERMS = Policy(fee_ppm=10_000, holdback_ppm=100_000)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What was filed and what the books have; equal where all is well."""

    servings: int
    receipts: int  # leaves of all filings
    vouchers: int
    filings: int
    stored: int  # answers of each kind
    duplicates: int
    refiled: int
    owed_uc: int  # added up from the leaves, apart from the ledger
    earned_uc: int
    paid_out_uc: int  # available to workers, and the operator's fee
    tabs: int
    released: int
    settlements: int  # transfers, one for each released tab
    trial_balance_uc: int
    seconds: float

    @property
    def differences(self) -> list[str]:
        """Name what does not agree; nothing for honest books."""
        pairs = {
            "receipts": (self.receipts, self.servings),
            "filings": (self.filings, self.vouchers),
            "answers stored": (self.stored, self.vouchers),
            "answers duplicate": (self.duplicates, self.refiled),
            "earned": (self.earned_uc, self.owed_uc),
            "paid out": (self.paid_out_uc, self.owed_uc),
            "released": (self.released, self.tabs),
            "settlements": (self.settlements, self.tabs),
            "trial balance": (self.trial_balance_uc, 0),
        }
        return [
            f"{name}: {found:,} instead of {wanted:,}"
            for name, (found, wanted) in pairs.items()
            if found != wanted
        ]


class _Lane:
    """One worker's tab: makes its vouchers one after the other."""

    def __init__(self, side: TabSide) -> None:
        self.owed_uc = 0
        self.servings = 0
        self._side = side
        self._tally = Tally(side.terms, side.world.prices)
        self._next = 1

    def next(self, n: int, *, final: bool) -> tuple[SignedVoucher, bytes]:
        block = b"".join(self._leaves(n))
        self._tally.add(block)
        side = self._side
        drafted = self._tally.draft(
            side.previous,
            grant_hash=side.grant.content_hash,
            issued_us=side.world.now_us,
            final=final,
        )
        side.previous = drafted
        return side.sign(drafted), block

    def _leaves(self, n: int) -> Iterator[bytes]:
        side, prices = self._side, self._side.world.prices
        while n:
            serving = self._next
            self._next += 1
            if serving % _HOLE == 0:
                continue
            n -= 1
            layer, expert, rows = serving % 3, serving % 5, serving % 4 + 1
            amount_uc = rows * prices.unit_price(layer, expert)
            self.owed_uc += amount_uc
            self.servings += 1
            packer = LeafPacker(
                tab=side.tab,
                request=serving,
                layer=layer,
                price_epoch=prices.epoch,
                nonce=bytes(8),
            )
            name = serving.to_bytes(16, "big")
            yield packer.pack(serving, (expert, rows, amount_uc), name, name)


class _Filer:
    """Files vouchers with a bounded number under way, and counts the answers."""

    def __init__(self, store: Store) -> None:
        self.answers: Counter[FiledStatus] = Counter()
        self.n_refiled = 0
        self.n_vouchers = 0
        self._store = store
        self._waiting = deque[Future[Filed]]()

    def file(self, made: tuple[SignedVoucher, bytes], worker: bytes) -> None:
        self.n_vouchers += 1
        self._waiting.append(self._store.file(*made, worker))
        if self.n_vouchers % _TWICE == 0:
            self.n_refiled += 1
            self._waiting.append(self._store.file(*made, worker))
        self.drain(_WAITING)

    def drain(self, n_left: int = 0) -> None:
        while len(self._waiting) > n_left:
            self.answers[self._waiting.popleft().result(60).status] += 1


def settle(path: Path, n_servings: int, say: Callable[[str], None]) -> Settled:
    """File, close, release and add up; `path` may name a PostgreSQL database."""
    start = time.monotonic()
    world = World()
    with world.open(path, window_s=0.005, credit_uc=10**13, terms=_TERMS) as store:
        lanes = _lanes(world, store)
        filer = _Filer(store)
        _file_all(world, lanes, filer, n_servings, say)
        say("windows end")
        for hours in (49, 24 * 30):
            world.now_us += hours * _HOUR_US
            store.tend()
    return _added_up(path, lanes, filer, time.monotonic() - start)


def _lanes(world: World, store: Store) -> dict[bytes, _Lane]:
    lanes = {}
    for n in range(_N_WORKERS):
        worker = Party(f"worker {n}")
        order = world.order(worker=worker, ceiling_uc=10**11)
        issued = store.grant(order).result(60)
        tab = world.tab(issued, worker=worker, tab=b"tab-%04d" % n)
        lanes[worker.id] = _Lane(tab)
    return lanes


def _file_all(
    world: World,
    lanes: dict[bytes, _Lane],
    filer: _Filer,
    n_servings: int,
    say: Callable[[str], None],
) -> None:
    left = n_servings
    n_finals = len(lanes)
    for worker, lane in cycle(lanes.items()):
        final = left <= n_finals * _LEAVES
        n = left // n_finals if final else _LEAVES
        filer.file(lane.next(n, final=final), worker)
        left -= n
        n_finals -= final
        world.now_us += 10_000
        if filer.n_vouchers % 1000 == 0:
            say(f"{n_servings - left:,} of {n_servings:,} servings filed")
        if not n_finals:
            break
    filer.drain()


def _added_up(
    path: Path, lanes: dict[bytes, _Lane], filer: _Filer, seconds: float
) -> Settled:
    with Reader(path).session() as connection:
        lines = balances(connection)
        moved = {
            row.code: (row.n, int(row.total))
            for row in connection.execute(
                select(
                    transfer.c.code,
                    func.count().label("n"),
                    func.sum(transfer.c.amount_uc).label("total"),
                ).group_by(transfer.c.code)
            )
        }
        filings = connection.execute(
            select(func.count(), func.sum(filing.c.leaves))
        ).one()
        released = connection.execute(
            select(func.count()).where(closing.c.state == "released")
        ).scalar_one()
    paid_out = {AccountKind.WORKER_AVAILABLE, AccountKind.FEE}
    return Settled(
        servings=sum(lane.servings for lane in lanes.values()),
        receipts=int(filings[1]),
        vouchers=filer.n_vouchers,
        filings=filings[0],
        stored=filer.answers[FiledStatus.STORED],
        duplicates=filer.answers[FiledStatus.DUPLICATE],
        refiled=filer.n_refiled,
        owed_uc=sum(lane.owed_uc for lane in lanes.values()),
        earned_uc=moved[TransferCode.EARN][1],
        paid_out_uc=sum(line.balance_uc for line in lines if line.kind in paid_out),
        tabs=len(lanes),
        released=released,
        settlements=moved[TransferCode.SETTLE][0],
        trial_balance_uc=sum(line.balance_uc for line in lines),
        seconds=seconds,
    )


def main() -> None:
    """Try a small run: `python -m tests.benchmarks.ledger_settled FOLDER N`."""
    found = settle(Path(sys.argv[1]), int(sys.argv[2]), print)
    print(found, found.differences)


if __name__ == "__main__":
    main()
