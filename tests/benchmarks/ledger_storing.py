"""What the ledger's database does: vouchers made durable, statements read.

Both engines, each on this machine's disk with every sync: SQLite in a folder, and a
PostgreSQL server started for the run. Beside each the plain way of doing it.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ledger.database import Reader
from ledger.periods import parse_period
from ledger.statements import statement
from ledger.store import Store
from ledger.voucher import SignedVoucher
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.ledger_million import N_VOUCHERS, write_million
from tests.support.ledger_world import Party, World
from tests.support.postgres import has_postgres, running_server

__all__ = ["database_figures", "notes"]

_N_TABS = 32
_FILED_LEAVES = 8
_N_EACH, _N_EACH_IN_TURN = 40, 4
_ROUNDS = 3
_READS = 3
Jobs = list[tuple[SignedVoucher, bytes]]  # of one tab, in order
Prepare = Callable[[Path], Path]


def database_figures() -> list[Figure]:
    """Measure; about three minutes."""
    found = []
    for name, prepare in _engines():
        found.append(_stored(name, prepare))
        found.append(_stated(name, prepare))
    return found


def notes() -> list[str]:
    """Say which engine could not be measured."""
    return [] if has_postgres() else ["no PostgreSQL here: apt install postgresql"]


def _engines() -> Iterator[tuple[str, Prepare]]:
    """Yield each engine's name and what makes a folder use it."""
    yield "SQLite", lambda folder: folder
    if has_postgres():
        with running_server(on_disk=True) as server:
            yield "PostgreSQL", server.prepare


def _stored(name: str, prepare: Prepare) -> Figure:
    measure = partial(_file_all, prepare)
    return figure(
        f"vouchers of {_FILED_LEAVES} leaves verified and stored, {name}",
        "/s",
        [measure(in_turn=False) for _ in range(_ROUNDS)],
        baseline=[measure(in_turn=True) for _ in range(_ROUNDS)],
        at_least=2000,
    )


@contextmanager
def _folder(prepare: Prepare) -> Iterator[Path]:
    """Make a folder on the disk of the working folder, for as long as it is used."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="bench-") as folder:
        yield prepare(Path(folder) / "ledger")


def _file_all(prepare: Prepare, *, in_turn: bool) -> float:
    """File vouchers of many tabs; vouchers a second until the last is durable.

    In turn: each is waited for, so that it has a commit of its own.
    """
    world = World()
    n_each = _N_EACH_IN_TURN if in_turn else _N_EACH
    window_s = 0.0 if in_turn else 0.01
    with (
        _folder(prepare) as path,
        world.open(path, window_s=window_s, credit_uc=10**14) as store,
    ):
        made = _made(world, store, n_each)
        start = time.perf_counter()
        if in_turn:
            for jobs in made:
                for job in jobs:
                    _file(store, world, [job])
        else:
            # Two senders; each tab's vouchers stay in order.
            shares = [[job for jobs in made[n::2] for job in jobs] for n in (0, 1)]
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(partial(_file, store, world), shares))
        return n_each * _N_TABS / (time.perf_counter() - start)


def _made(world: World, store: Store, n_each: int) -> list[Jobs]:
    made = []
    for n in range(_N_TABS):
        worker = Party(f"worker {n}")
        issued = store.grant(world.order(worker=worker, ceiling_uc=10**9)).result(60)
        tab = world.tab(issued, worker=worker, tab=b"tab-%04d" % n)
        spans = [
            range(k * _FILED_LEAVES, (k + 1) * _FILED_LEAVES) for k in range(n_each)
        ]
        made.append([tab.next(*span) for span in spans])
    return made


def _file(store: Store, world: World, jobs: Jobs) -> None:
    futures = [store.file(*job, world.backbone.id) for job in jobs]
    for future in futures:
        if future.result(60).status != 0:
            raise RuntimeError(future.result())


def _stated(name: str, prepare: Prepare) -> Figure:
    """A month's statement of a worker with a million vouchers in it.

    Beside it: fetching what it is made of, a row a voucher.
    """
    with _folder(prepare) as path:
        worker = write_million(path)
        return figure(
            f"statement over {N_VOUCHERS:,} vouchers, {name}",
            "s",
            [_statement_s(path, worker) for _ in range(_READS)],
            baseline=[_fetched_s(path)],
            at_most=2.0,
        )


def _statement_s(path: Path, worker: bytes) -> float:
    start = time.perf_counter()
    with Reader(path).session() as connection:
        made = statement(connection, worker, parse_period("2026-11"))
    if sum(line.vouchers for line in made.by_backbone) != N_VOUCHERS:
        raise RuntimeError(made)
    return time.perf_counter() - start


def _fetched_s(path: Path) -> float:
    start = time.perf_counter()
    with Reader(path).session() as connection:
        rows = connection.exec_driver_sql(
            "select leaves, rows, amount_uc, posted_us from filing"
        )
        sum(row.amount_uc for row in rows)
    return time.perf_counter() - start
