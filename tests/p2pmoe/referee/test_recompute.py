"""A leaf's results are recomputed by the exact kernel: equal, or the worker cheated."""

import dataclasses

import pytest

from ledger.dispute_papers import Half, Opening
from ledger.errors import ProofRefused
from ledger.leaf import Leaf
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_rows
from mobile_worker.expert_id import ExpertId
from mobile_worker.servings.hashes import out_hash, x_hash
from mobile_worker.servings.opened_rows import opened_bytes
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.errors import ConfigurationError
from p2pmoe.referee.recompute import Case, recompute
from p2pmoe.weights.expert_file import ExpertFile
from tests.support.backbone_model import POCKET, manifest_of, model_of
from tests.support.ledger_world import paper_tab

KERNEL = NumpyKernel()
EXPERT = ExpertId(1, 2)


def case(profile: Profile = Profile.R16) -> Case:
    """An honest serving of two rows by an expert of the pocket model."""
    model = model_of(POCKET)
    weights = ExpertFile(model).weights(EXPERT)
    floats = fixed_rows("served", 2, weights.gate.n_cols)
    rows = ExpertInput(coded=quantize_rows(floats))
    results = KERNEL.expert(weights, rows, profile)
    tab = paper_tab()
    tab.serve(0)
    voucher = dataclasses.replace(
        tab.draft(), profile=profile, manifest_hash=manifest_hash(manifest_of(POCKET))
    )
    leaf = dataclasses.replace(
        Leaf.parse(tab.leaves[0]),
        layer=EXPERT.layer,
        expert=EXPERT.index,
        rows=2,
        x_hash=x_hash(rows),
        out_hash=out_hash(results),
    )
    opening = Opening(Half.ROWS, opened_bytes(rows))
    return Case(voucher=voucher, leaf=leaf, rows=opening)


def find(asked: Case):
    return recompute(asked, model_of(POCKET), manifest_of(POCKET), KERNEL)


@pytest.mark.parametrize("profile", list(Profile))
def test_an_honest_serving_is_found_right_in_every_profile(profile):
    asked = case(profile)
    found = find(asked)
    assert found.is_equal
    assert found.out_hash == asked.leaf.out_hash == out_hash(found.results)
    assert found.kernel == KERNEL.name


def test_results_of_another_expert_or_profile_are_found_wrong():
    asked = case()
    elsewhere = dataclasses.replace(asked.leaf, expert=3)
    assert not find(dataclasses.replace(asked, leaf=elsewhere)).is_equal
    other = dataclasses.replace(asked.voucher, profile=int(Profile.R8))
    found = find(dataclasses.replace(asked, voucher=other))
    assert not found.is_equal
    assert found.out_hash not in {None, asked.leaf.out_hash}


def test_rows_that_no_expert_takes_give_nothing():
    asked = case()
    bad = b"\x80" + asked.rows.raw[1:]
    leaf = dataclasses.replace(asked.leaf, x_hash=out_hash(bad))
    found = find(dataclasses.replace(asked, leaf=leaf, rows=Opening(Half.ROWS, bad)))
    assert (found.is_equal, found.out_hash, found.results) == (False, None, None)
    assert "-128" in found.reason


def test_what_cannot_be_judged():
    asked = case()
    with pytest.raises(ConfigurationError, match="manifest"):
        find(dataclasses.replace(asked, voucher=paper_voucher()))
    unknown = dataclasses.replace(asked.voucher, profile=9)
    with pytest.raises(ConfigurationError, match="profile 9"):
        find(dataclasses.replace(asked, voucher=unknown))
    missing = dataclasses.replace(asked.leaf, expert=4000)
    with pytest.raises(Exception, match="4000"):
        find(dataclasses.replace(asked, leaf=missing))
    with pytest.raises(ProofRefused):
        find(dataclasses.replace(asked, rows=Opening(Half.ROWS, b"others")))
    results = Opening(Half.RESULTS, b"y0")
    leaf = dataclasses.replace(asked.leaf, out_hash=out_hash(b"y0"))
    with pytest.raises(ConfigurationError, match="rows are needed"):
        find(dataclasses.replace(asked, rows=results, leaf=leaf))


def test_a_file_with_another_expert_is_not_believed():
    asked = case()
    manifest = manifest_of(POCKET)
    entries = [
        dataclasses.replace(entry, digest=bytes(32))
        if entry.expert == EXPERT
        else entry
        for entry in manifest.experts
    ]
    altered = dataclasses.replace(manifest, experts=tuple(entries))
    voucher = dataclasses.replace(asked.voucher, manifest_hash=manifest_hash(altered))
    with pytest.raises(ConfigurationError, match="not the one in the manifest"):
        recompute(
            dataclasses.replace(asked, voucher=voucher),
            model_of(POCKET),
            altered,
            KERNEL,
        )


def paper_voucher():
    tab = paper_tab()
    tab.serve(0)
    return tab.draft()
