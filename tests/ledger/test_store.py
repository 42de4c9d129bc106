"""The store as a whole: many at once, a full disk, restarts, and a model of it."""

import dataclasses
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from sqlalchemy import func, select

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.claims import FiledStatus
from ledger.database import Reader
from ledger.errors import (
    DifferenceFound,
    FolderInUse,
    LedgerError,
    StoreUnavailable,
)
from ledger.leaf import LEAF_BYTES
from ledger.periods import ALL_TIME
from ledger.schema import filing, voucher
from ledger.statements import balances, statement
from ledger.store import Store
from tests.support.ledger_world import Party, World


def pending(store, worker: Party) -> int:
    with store.reader().session() as connection:
        return statement(connection, worker.id, ALL_TIME).closing_uc


def test_b39_the_same_voucher_100_times_at_once_is_one_row(ledger_database):
    world = World()
    with world.open(ledger_database, window_s=0.002) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        signed, block = tab.next(0, 1, 2)
        futures = [store.file(signed, block, b"f" * 32) for _ in range(100)]
        answers = sorted(f.result(60).status for f in futures)
        assert answers == [FiledStatus.STORED] + [FiledStatus.DUPLICATE] * 99
        with store.reader().session() as connection:
            for table in (voucher, filing):
                count = select(func.count()).select_from(table)
                assert connection.execute(count).scalar() == 1
    with world.open(ledger_database) as store:  # after a restart
        again = store.file(signed, block, b"f" * 32).result(60)
        assert again.status is FiledStatus.DUPLICATE
        assert pending(store, world.worker) == tab.previous.amount_uc


def test_b35_8_writers_and_a_reader_10000_inserts_0_errors(ledger_database):
    """10,000 leaves in 1,000 vouchers by 8 threads, with statements all the while."""
    world = World()
    n_threads, n_vouchers, n_leaves = 8, 125, 10
    with world.open(ledger_database, window_s=0.005, credit_uc=10**12) as store:
        sides = []
        for n in range(n_threads):
            worker = Party(f"worker {n}")
            issued = store.grant(world.order(worker=worker, ceiling_uc=10**8)).result(
                60
            )
            tab = world.tab(issued, worker=worker, tab=b"tab-%04d" % n)
            spans = [range(k * n_leaves, (k + 1) * n_leaves) for k in range(n_vouchers)]
            sides.append((tab, [tab.next(*span) for span in spans]))
        errors, done = [], threading.Event()

        def write(tab, jobs) -> None:
            try:
                futures = [store.file(s, b, tab.backbone.id) for s, b in jobs]
                errors.extend(a for f in futures if (a := f.result(60)).status != 0)
            except LedgerError as exc:
                errors.append(exc)

        def read() -> None:
            reader = store.reader()
            while not done.is_set():
                try:
                    with reader.session() as connection:
                        statement(connection, sides[0][0].worker.id, ALL_TIME)
                except LedgerError as exc:
                    errors.append(exc)

        threads = [threading.Thread(target=write, args=side) for side in sides]
        watcher = threading.Thread(target=read)
        for thread in (*threads, watcher):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        watcher.join()
        assert errors == []
        report = verify_ledger(store.reader(), world.identity)
        assert report.receipts == 10_000
        assert report.transfers == 1 + n_threads + n_threads * n_vouchers


def test_a_full_database_loses_nothing_that_was_acknowledged(tmp_path, only_sqlite):
    world = World()
    with world.open(tmp_path) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        assert tab.file(store, 0).status is FiledStatus.STORED
        acknowledged = [tab.previous.amount_uc]

        def fill() -> None:
            for n in range(1, 200):
                tab.file(store, n)
                acknowledged.append(tab.previous.amount_uc)

        with store._engine.connect() as connection:
            pages = connection.exec_driver_sql("pragma page_count").scalar()
            connection.exec_driver_sql(f"pragma max_page_count = {pages}")
        with pytest.raises(StoreUnavailable, match="full") as caught:
            fill()
        assert "\n" not in str(caught.value)
        assert caught.value.advice
        with store._engine.connect() as connection:
            connection.exec_driver_sql("pragma max_page_count = 1000000")
        assert pending(store, world.worker) == acknowledged[-1]
        signed = tab.sign(tab.previous)
        block = b"".join(tab.leaves.values())
        assert store.file(signed, block, b"f" * 32).result(60).status == 0
        verify_ledger(store.reader(), world.identity)


def test_one_process_one_folder_one_ledger(tmp_path):
    world = World()
    with world.open(tmp_path):
        with pytest.raises(FolderInUse):
            world.open(tmp_path)
    other = World()
    other.market = Party("another market")
    with pytest.raises(StoreUnavailable, match="market"):
        other.open(tmp_path)
    world.open(tmp_path).close()  # the lock was given back


@pytest.mark.slow
def test_kill_9_at_20_random_moments_loses_no_acknowledged_voucher(tmp_path):
    rng = random.Random(20)
    acknowledged: dict[str, tuple[int, int]] = {}
    for _ in range(20):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.support.ledger_process", tmp_path, "4"],
            cwd=Path(__file__).resolve().parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        n_lines = rng.randrange(1, 120)
        for _ in range(n_lines):
            acknowledge(child.stdout.readline(), acknowledged)
        time.sleep(rng.random() * 0.01)
        child.kill()
        rest = child.stdout.read()
        child.wait()
        child.stdout.close()
        for line in rest.splitlines():
            acknowledge(line, acknowledged)
        check_acknowledged(tmp_path, acknowledged)
    assert len(acknowledged) > 40


def acknowledge(line: str, acknowledged: dict[str, tuple[int, int]]) -> None:
    words = line.split()
    if len(words) == 3:
        acknowledged[words[0]] = int(words[1]), int(words[2])


def check_acknowledged(path, acknowledged: dict[str, tuple[int, int]]) -> None:
    """Everything acknowledged is stored, and the next life starts from sound books."""
    world = World()
    world.open(path).close()  # recovers
    reader = Reader(path)
    verify_ledger(reader, world.identity)
    with reader.session() as connection:
        rows = connection.execute(select(voucher)).all()
    stored = {row.tab.hex(): (row.number, row.amount_uc) for row in rows}
    for tab, (number, amount_uc) in acknowledged.items():
        assert stored[tab] >= (number, amount_uc)


class LedgerModel(RuleBasedStateMachine):
    """Grants, filings, repeats, restarts against plain dictionaries."""

    @initialize()
    def begin(self) -> None:

        self.holder = tempfile.TemporaryDirectory()
        self.path = Path(self.holder.name) / "ledger"
        self.world = World()
        self.store = self.world.open(self.path, credit_uc=10_000)
        self.tabs = []
        self.earned: dict[bytes, int] = {}
        self.filed = []

    @rule(worker=st.sampled_from(["w1", "w2"]), ceiling=st.integers(1, 6000))
    def grant(self, worker: str, ceiling: int) -> None:
        party = Party(worker)
        order = self.world.order(worker=party, ceiling_uc=ceiling)
        try:
            issued = self.store.grant(order).result(60)
        except LedgerError:
            return
        tab = b"tab-%04d" % len(self.tabs)
        self.tabs.append(self.world.tab(issued, worker=party, tab=tab))

    @precondition(lambda self: self.tabs)
    @rule(data=st.data(), servings=st.sets(st.integers(0, 30), min_size=1, max_size=4))
    def file(self, data, servings) -> None:
        tab = data.draw(st.sampled_from(self.tabs))
        new = sorted(servings - set(tab.leaves))
        before = tab.previous, dict(tab.leaves), tab.tally.copy()
        signed, block = tab.next(*new)
        answer = self.store.file(signed, block, b"f" * 32).result(60)
        if answer.status is FiledStatus.STORED:
            worker = tab.worker.id
            was = before[0].amount_uc if before[0] else 0
            added = tab.previous.amount_uc - was
            self.earned[worker] = self.earned.get(worker, 0) + added
            self.filed.append((signed, block))
        else:
            assert answer.reason == "ceiling"
            tab.previous, tab.leaves, tab.tally = before

    @precondition(lambda self: self.filed)
    @rule(data=st.data())
    def repeat(self, data) -> None:
        signed, block = data.draw(st.sampled_from(self.filed))
        answer = self.store.file(signed, block, b"f" * 32).result(60)
        assert answer.status is FiledStatus.DUPLICATE

    @precondition(lambda self: self.filed)
    @rule(data=st.data())
    def forge(self, data) -> None:
        signed, block = data.draw(st.sampled_from(self.filed))
        forged = dataclasses.replace(signed, backbone_signature=bytes(64))
        answer = self.store.file(forged, block, b"f" * 32).result(60)
        assert answer.status is FiledStatus.REJECTED

    @rule(hours=st.integers(1, 60))
    def wait(self, hours: int) -> None:
        self.world.now_us += hours * 3_600_000_000
        self.store.release_expired().result(60)
        # Released grants take no more: those tabs are over.
        limit = self.world.now_us - 48 * 3_600_000_000
        self.tabs = [tab for tab in self.tabs if tab.grant.expiry_us >= limit]

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.world.open(self.path, credit_uc=10_000)

    @invariant()
    def books_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        verify_ledger(self.store.reader(), self.world.identity)
        with self.store.reader().session() as connection:
            lines = balances(connection)
        assert sum(line.balance_uc for line in lines) == 0
        kind = AccountKind.WORKER_PENDING
        stored = {b.owner: b.balance_uc for b in lines if b.kind == kind}
        assert {k: v for k, v in stored.items() if v} == self.earned

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.holder.cleanup()


TestLedgerModel = LedgerModel.TestCase
TestLedgerModel.settings = settings(
    max_examples=8,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_a_closed_store_tends_and_prunes_no_more(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        assert store.tend().is_done
    assert not store.tend().is_done
    assert store.retain().packed == ()


def test_a_ledger_without_its_key_is_not_opened_half(tmp_path):
    world = World()

    def refuse(_: bytes) -> bytes:
        raise StoreUnavailable("no key at hand")

    with pytest.raises(StoreUnavailable, match="no key"):
        Store(tmp_path, world.identity, sign=refuse, wall_us=lambda: world.now_us)
    world.open(tmp_path).close()  # the folder was given back


def test_a_database_of_an_earlier_day_cuts_off_no_leaves(tmp_path, only_sqlite):
    world = World()
    with world.open(tmp_path) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 1)
    database = tmp_path / "ledger.sqlite3"
    yesterday = database.read_bytes()
    with world.open(tmp_path) as store:
        tab.file(store, 2, 3, final=True)
        store.tend()
    today = database.read_bytes()
    database.write_bytes(yesterday)
    leaves = tmp_path / "leaves/00000001.leaves"
    with pytest.raises(DifferenceFound, match="of an earlier day"):
        world.open(tmp_path)
    assert leaves.stat().st_size == 3 * LEAF_BYTES
    database.write_bytes(today)
    world.open(tmp_path).close()


def test_a_long_chore_ends_when_the_store_is_closing(tmp_path, monkeypatch):
    """Publishing a backlog must not hold up the end for minutes."""
    world = World()
    store = world.open(tmp_path)
    monkeypatch.setattr(store, "_is_closing", True)  # set from another thread
    with pytest.raises(StoreUnavailable, match="closed"):
        store._submit(lambda desk: desk.now_us)
    store.close()
