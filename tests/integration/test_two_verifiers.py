"""Two verifiers that share no code agree on honest books, wherever they come from."""

import ast
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import leaf_files
from ledger.audit import verify_ledger
from ledger.backup import restore_backup, take_backup
from ledger.database import Reader
from ledger.errors import DifferenceFound
from tests.support.honest_books import copy_of_honest_books
from tests.support.honest_worlds import EVENTS, TERMS, Life
from tests.support.independent import SCRIPT, ids_of, independent
from tests.support.ledger_world import DAY_US, World


def agreed(folder, world):
    """Run both and return what they found."""
    report = verify_ledger(Reader(folder), world.identity)
    counts = independent.verify(folder, ids_of(world))
    assert counts
    for name, number in counts.items():
        assert getattr(report, name) == number, name
    return report


def test_on_books_with_everything_in_them(tmp_path):
    world = copy_of_honest_books(tmp_path / "books")
    report = agreed(tmp_path / "books", world)
    assert min(report.disputes, report.payouts, report.cosignatures) > 0


def test_on_leaves_that_are_packed_and_pruned(tmp_path, monkeypatch):
    monkeypatch.setattr(leaf_files, "_FILE_BYTES", 300)
    world = World()
    with world.open(tmp_path, terms=TERMS) as store:
        life = Life(world, store)
        for days in (40, 0, 0):
            life.new_tab(1)
            life.tabs[-1].file(store, *range(5), final=True)
            life.wait_long(3)
            world.now_us += days * DAY_US
        for _ in range(2):
            store.retain()
        report = agreed(tmp_path, world)
        assert report.pruned_files == [1]
        assert (report.pruned_receipts, report.receipts) == (5, 10)
    packed = next((tmp_path / "leaves").glob("*.packed"))
    raw = bytearray(packed.read_bytes())
    raw[-20] ^= 1
    packed.write_bytes(raw)
    with pytest.raises(DifferenceFound):
        verify_ledger(Reader(tmp_path), world.identity)
    with pytest.raises(independent.Difference):
        independent.verify(tmp_path, ids_of(world))


def test_on_a_log_of_more_than_one_tile(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        issued = store.grant(world.order()).result(60)
        for part in range(3):  # a checkpoint after each: partial tiles, then full ones
            filed = []
            for n in range(part * 100, part * 100 + 100):
                tab = world.tab(issued, tab=n.to_bytes(8, "big"))
                signed, block = tab.next(0, final=True)
                filed.append(store.file(signed, block, tab.worker.id))
            assert {each.result(60).status for each in filed} == {0}
            store.tend()
    assert agreed(tmp_path, world).log_entries == 300
    tile = tmp_path / "log/tile/1/000.p/1"
    tile.write_bytes(bytes(32))
    with pytest.raises(DifferenceFound, match="tile/1/000"):
        verify_ledger(Reader(tmp_path), world.identity)
    with pytest.raises(independent.Difference, match="tile/1/000"):
        independent.verify(tmp_path, ids_of(world))


def test_on_a_backup(tmp_path):
    world = copy_of_honest_books(tmp_path / "books")
    take_backup(tmp_path / "books", tmp_path / "backup", world.now_us)
    assert agreed(tmp_path / "backup", world).vouchers == 13
    restore_backup(tmp_path / "backup", tmp_path / "again")
    assert agreed(tmp_path / "again", world).vouchers == 13


def test_on_any_database(ledger_database):
    """The second verifier reads SQLite: books in PostgreSQL go through a backup."""
    world = World()
    with world.open(ledger_database, terms=TERMS) as store:
        life = Life(world, store)
        for kind, about in zip(range(2 * len(EVENTS)), range(7, 999, 3), strict=False):
            life.happen(kind, about)
        report = verify_ledger(store.reader(), world.identity)
        take_backup(ledger_database, ledger_database.parent / "backup", world.now_us)
    counts = independent.verify(ledger_database.parent / "backup", ids_of(world))
    assert counts["transfers"] == report.transfers > 10


def test_a_ledger_that_runs(tmp_path):
    world = World()
    with world.open(tmp_path, terms=TERMS) as store:
        life = Life(world, store)
        for about in range(8):
            life.serve(about)
            life.finish(about + 1)
            life.wait(about)
            agreed(tmp_path, world)


EVENT = st.tuples(st.integers(0, len(EVENTS) - 1), st.integers(0, 99))


def agree_on(events):
    with tempfile.TemporaryDirectory() as path:
        folder, world = Path(path) / "ledger", World()
        with world.open(folder, terms=TERMS) as store:
            life = Life(world, store)
            for kind, about in events:
                life.happen(kind, about)
        agreed(folder, world)


@settings(max_examples=3)
@given(st.lists(EVENT, min_size=10, max_size=40))
def test_on_any_world(events):
    agree_on(events)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(EVENT, min_size=40, max_size=150))
def test_on_any_long_world(events):
    agree_on(events)


def test_the_script_shares_no_code():
    imported = set()
    for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"cryptography"}


def test_the_script_runs_alone(tmp_path):
    folder = tmp_path / "books"
    owner = copy_of_honest_books(folder).identity
    ids = [
        f"--{name}={getattr(owner, name).hex()}"
        for name in ("network", "ledger", "market")
    ]
    kept = tmp_path / "kept"
    kept.write_bytes((folder / "log/checkpoint").read_bytes())

    def run(path, *more):
        command = [sys.executable, "-I", str(SCRIPT), str(path), *ids, *more]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run(folder, f"--checkpoint={kept}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("all agrees\n")
    (folder / "leaves/00000001.leaves").unlink()
    done = run(folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("DIFFERENCE: leaf file 1")
    done = run(tmp_path / "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
