"""Two verifiers agree on honest books, and each finds every planted falsification.

One is the ledger's own audit; the other, docs/auditor/independent_verifier.py, shares
no code with it. The audit proves nothing if it can be fooled, so the cheats are tried.
"""

import ast
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.audit import verify_ledger
from ledger.database import Reader
from ledger.errors import DifferenceFound
from tests.support import falsifications, falsifications_closing
from tests.support.cook import FALSIFICATIONS
from tests.support.honest_books import copy_of_honest_books
from tests.support.honest_worlds import EVENTS, TERMS, Life
from tests.support.ledger_world import World

SCRIPT = Path(__file__).parents[2] / "docs" / "auditor" / "independent_verifier.py"
SPEC = importlib.util.spec_from_file_location("independent_verifier", SCRIPT)
independent = importlib.util.module_from_spec(SPEC)
sys.modules["independent_verifier"] = independent
SPEC.loader.exec_module(independent)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("honest") / "ledger"
    return folder, copy_of_honest_books(folder)


def ids(world):
    owner = world.identity
    return independent.Ids(owner.network, owner.ledger, owner.market)


def test_both_agree_on_honest_books(honest):
    folder, world = honest
    report = verify_ledger(Reader(folder), world.identity)
    counts = independent.verify(folder, ids(world))
    assert counts
    for name, number in counts.items():
        assert getattr(report, name) == number, name


@pytest.mark.parametrize("falsification", FALSIFICATIONS, ids=lambda each: each.name)
def test_both_find_it(honest, tmp_path, falsification):
    honest_folder, world = honest
    folder = tmp_path / "ledger"
    shutil.copytree(honest_folder, folder)
    falsification.apply(folder, world)
    with pytest.raises(DifferenceFound) as ours:
        verify_ledger(Reader(folder), world.identity)
    with pytest.raises(independent.Difference) as theirs:
        independent.verify(folder, ids(world))
    for found in (ours, theirs):
        assert "\n" not in str(found.value)
        assert "no sense" not in str(found.value)


def test_there_are_more_than_fifty():
    names = {each.name for each in FALSIFICATIONS}
    assert len(names) == len(FALSIFICATIONS) > 50
    assert falsifications.FALSIFICATIONS is falsifications_closing.FALSIFICATIONS


def test_the_script_shares_no_code():
    imported = set()
    for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"cryptography"}


def test_the_script_runs_alone(honest, tmp_path):
    folder, world = honest
    owner = world.identity
    command = [sys.executable, "-I", str(SCRIPT), str(folder)]
    for name in ("network", "ledger", "market"):
        command += [f"--{name}", getattr(owner, name).hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("all agrees\n")
    command[3] = str(tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def agree_on(events):
    """Both verifiers say the same about a ledger that lived through some events."""
    with tempfile.TemporaryDirectory() as path:
        folder, world = Path(path) / "ledger", World()
        with world.open(folder, terms=TERMS) as store:
            life = Life(world, store)
            for kind, about in events:
                life.happen(kind, about)
        report = verify_ledger(Reader(folder), world.identity)
        counts = independent.verify(folder, ids(world))
    for name, number in counts.items():
        assert getattr(report, name) == number, name


EVENT = st.tuples(st.integers(0, len(EVENTS) - 1), st.integers(0, 99))


@settings(max_examples=6)
@given(st.lists(EVENT, min_size=10, max_size=40))
def test_both_agree_on_any_world(events):
    agree_on(events)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(EVENT, min_size=40, max_size=150))
def test_both_agree_on_any_long_world(events):
    agree_on(events)
