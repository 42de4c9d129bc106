"""Two verifiers each find every planted falsification, and name it in one line.

One is the ledger's own audit; the other, docs/auditor/independent_verifier.py, shares
no code with it. The audit proves nothing if it can be fooled, so the cheats are tried.
"""

import pytest

from ledger.audit import verify_ledger
from ledger.database import Reader
from ledger.errors import DifferenceFound
from tests.support import (
    falsifications,
    falsifications_closing,
    falsifications_standby,
)
from tests.support.cook import FALSIFICATIONS
from tests.support.honest_books import copy_of_honest_books
from tests.support.independent import ids_of, independent

A_FEW = FALSIFICATIONS[::9]
THE_OTHERS = [each for each in FALSIFICATIONS if each not in A_FEW]


@pytest.mark.parametrize(
    "falsification",
    A_FEW + [pytest.param(each, marks=pytest.mark.slow) for each in THE_OTHERS],
    ids=lambda each: each.name,
)
def test_both_find_it(tmp_path, falsification):
    folder = tmp_path / "ledger"
    world = copy_of_honest_books(folder)
    falsification.apply(folder, world)
    with pytest.raises(DifferenceFound) as ours:
        verify_ledger(Reader(folder), world.identity)
    with pytest.raises(independent.Difference) as theirs:
        independent.verify(folder, ids_of(world))
    for found in (ours, theirs):
        assert "\n" not in str(found.value)
        assert "no sense" not in str(found.value)


def test_there_are_more_than_fifty():
    names = {each.name for each in FALSIFICATIONS}
    assert len(names) == len(FALSIFICATIONS) > 50
    for module in (falsifications_closing, falsifications_standby):
        assert module.FALSIFICATIONS is falsifications.FALSIFICATIONS
