"""A case is computed with the named model, if its manifest is the voucher's."""

import dataclasses

import pytest

from ledger.dispute_papers import Half, Opening
from ledger.leaf import Leaf
from p2pmoe.cli.recomputing import recompute_case
from p2pmoe.errors import ConfigurationError
from p2pmoe.referee.recompute import Case
from tests.support.backbone_model import POCKET, manifest_of
from tests.support.served_leaf import close_with, pocket_world, serving


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.setenv("P2PMOE_KERNEL", "numpy")
    world = pocket_world()
    with world.open(tmp_path / "ledger") as store:
        tab = close_with(world, store, serving().results)
    return Case(
        voucher=tab.previous,
        leaf=Leaf.parse(tab.leaves[0]),
        rows=Opening(Half.ROWS, serving().rows),
    )


def test_with_the_models_own_manifest_and_with_a_file(case, tmp_path):
    found = recompute_case(case, "pocket", None)
    assert (found.is_equal, found.kernel) == (True, "numpy")
    path = tmp_path / "manifest"
    path.write_bytes(manifest_of(POCKET).encode())
    assert recompute_case(case, str(POCKET), path) == found


def test_another_model_judges_nothing(case):
    other = dataclasses.replace(case.voucher, manifest_hash=bytes(32))
    with pytest.raises(ConfigurationError, match="the voucher names 0000"):
        recompute_case(dataclasses.replace(case, voucher=other), "pocket", None)
