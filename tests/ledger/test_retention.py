"""Retention: closed files are packed, pruned when all their vouchers are over."""

import dataclasses

import pytest
from sqlalchemy import func, insert, select, update

from ledger import leaf_files, retention
from ledger.audit import verify_ledger
from ledger.backup import restore_backup, take_backup
from ledger.database import Reader
from ledger.errors import LeavesPruned
from ledger.leaf_files import LeafPlace, leaf_path, read_leaves
from ledger.policy import Policy
from ledger.retention import plan_retention, retain
from ledger.schema import account, filing, voucher
from ledger.schema_closing import closing, leaf_file_state, policy
from tests.support.ledger_world import DAY_US, Party, World

N_FILES = 3
TERMS = Policy(dispute_us=10, answer_us=5, retention_us=100)


@pytest.fixture
def books(ledger_database, monkeypatch):
    """A store whose leaf files are full after one filing; workers 0, 1, 2."""
    monkeypatch.setattr(leaf_files, "_FILE_BYTES", 100)
    world = World()
    with world.open(ledger_database) as store:
        for n in range(N_FILES):
            worker = Party(f"worker {n}")
            issued = store.grant(world.order(worker=worker)).result(60)
            world.tab(issued, worker=worker, tab=b"tab-%04d" % n).file(store, 0, 1)
        yield world, store


def submit(store, job):
    return store._writer.submit(job)


def close_voucher(store, voucher_id: int, closed_us: int, state="released") -> None:
    """Write a closing row, as the ledger would."""

    def job(desk) -> None:
        terms = dataclasses.replace(TERMS)
        known = select(policy.c.hash).where(policy.c.hash == terms.content_hash)
        if desk.connection.execute(known).scalar_one_or_none() is None:
            seq = desk.connection.execute(select(func.max(policy.c.seq))).scalar() or 0
            row = {"seq": seq + 1, "hash": terms.content_hash, "raw": terms.pack()}
            row |= {"signature": bytes(64), "posted_us": 0}
            desk.connection.execute(insert(policy).values(row))
        row = desk.connection.execute(
            select(voucher).where(voucher.c.id == voucher_id)
        ).one()
        owned = select(account.c.id).where(account.c.owner == row.worker)
        desk.connection.execute(
            insert(closing).values(
                voucher_id=voucher_id,
                content_hash=row.content_hash,
                log_index=voucher_id,
                entry_hash=bytes(32),
                policy_hash=terms.content_hash,
                worker_account=desk.connection.execute(owned).scalars().first(),
                amount_uc=row.amount_uc,
                fee_uc=0,
                held_uc=0,
                net_uc=row.amount_uc,
                closed_us=closed_us,
                release_due_us=closed_us + TERMS.dispute_us,
                state=state,
                holdback="none",
                holdback_due_us=0,
            )
        )

    submit(store, job).result(60)


def run(books, now_us: int):
    _, store = books
    return retain(store.folder, lambda job: submit(store, job), now_us)


def names(store) -> list[str]:
    return sorted(path.name for path in store.folder.leaves.iterdir())


def read_all(store) -> list[bytes]:
    with store.reader().session() as connection:
        places = connection.execute(
            select(filing.c.leaf_file, filing.c.leaf_offset).order_by(filing.c.number)
        ).all()
    return [
        read_leaves(store.folder.leaves, LeafPlace(file, offset), 158)
        for file, offset in places
    ]


def test_closed_files_are_packed_and_read_as_before(books):
    world, store = books
    before = read_all(store)
    assert run(books, 0).packed == (1, 2)  # the newest may still grow
    assert names(store)[:2] == ["00000001.packed", "00000002.packed"]
    assert "00000003.leaves" in names(store)
    assert read_all(store) == before
    assert run(books, 0) == retention.RetentionReport()
    store.close()
    with world.open(store.folder.path) as again:  # the next life takes them as they are
        assert read_all(again) == before


def test_a_file_is_pruned_when_all_its_vouchers_are_over(books):
    _, store = books
    run(books, 0)
    close_voucher(store, 1, closed_us=1000)
    assert run(books, 1100).pruned == ()  # to the microsecond
    assert run(books, 1101).pruned == (1,)
    assert names(store)[0] == "00000001.pruned"
    with pytest.raises(LeavesPruned):
        read_leaves(store.folder.leaves, LeafPlace(1, 0), 79)
    with store.reader().session() as connection:
        rows = connection.execute(
            select(leaf_file_state.c.number, leaf_file_state.c.state)
        ).all()
    assert set(rows) == {(1, "pruned"), (2, "packed")}


@pytest.mark.parametrize("state", ["closed", "disputed"])
def test_a_voucher_that_is_not_over_keeps_its_file(books, state):
    _, store = books
    run(books, 0)
    close_voucher(store, 1, closed_us=0, state=state)
    assert run(books, 10**15).pruned == ()


def test_one_voucher_of_many_keeps_the_file(books):
    """Also where others have filings without a leaf in it."""
    _, store = books
    run(books, 0)

    def move(desk) -> None:
        # The plan reads places alone; filings are append-only for everybody else.
        desk.connection.exec_driver_sql(drop_triggers(desk.connection))
        desk.connection.execute(
            update(filing).where(filing.c.voucher_id == 2).values(leaf_file=1)
        )

    submit(store, move).result(60)
    close_voucher(store, 1, closed_us=0)
    with store.reader().session() as connection:
        assert plan_retention(connection, 10**15).prune == (2,)  # nothing is in it
    close_voucher(store, 2, closed_us=0)
    with store.reader().session() as connection:
        assert plan_retention(connection, 10**15).prune == (1, 2)


def drop_triggers(connection) -> str:
    if connection.dialect.name == "sqlite":
        return "drop trigger filing_no_update"
    return "drop trigger filing_no_change on filing"


def test_a_run_cut_short_is_finished_by_the_next(books, monkeypatch):
    _, store = books
    leaves = store.folder.leaves
    plain = leaf_path(leaves, 1).read_bytes()
    run(books, 0)
    leaf_path(leaves, 1).write_bytes(plain)  # as after a crash before its removal
    run(books, 0)
    assert "00000001.leaves" not in names(store)
    close_voucher(store, 1, closed_us=0)

    def crash(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(retention, "mark_pruned", crash)
    with pytest.raises(OSError, match="Input"):
        run(books, 10**15)
    monkeypatch.undo()
    assert "00000001.packed" in names(store)
    assert run(books, 10**15).pruned == ()
    assert names(store)[0] == "00000001.pruned"


def test_a_ledger_that_runs_prunes_by_itself_and_still_verifies(books, tmp_path):
    world, store = books
    store.retain()
    before = verify_ledger(store.reader(), world.identity)
    world.now_us += 90 * DAY_US
    store.tend()  # grants are released and their keys closed
    world.now_us += 32 * DAY_US
    assert store.retain().pruned == ()
    world.now_us += 1
    store.tend()
    assert store.retain().pruned == (1, 2)
    report = verify_ledger(store.reader(), world.identity)
    assert before.receipts == report.receipts + report.pruned_receipts == 6
    assert report.pruned_receipts == 4
    assert len(report.pruned_files) == 2
    take_backup(store.folder.path, tmp_path / "b.tar", 0)
    restore_backup(tmp_path / "b.tar", tmp_path / "again")
    assert verify_ledger(Reader(tmp_path / "again"), world.identity) == report
