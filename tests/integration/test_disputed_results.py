"""B34: what a worker serves and a backbone signs for, and the referee recomputes.

Leaves and rows are those of the two sides' own code; only the results are tampered
with, before both hash them.
"""

import dataclasses

import numpy as np
import pytest

from ledger.dispute_papers import Half, Opening
from ledger.leaf import Leaf, split_leaves
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile, decode_result, encode_result
from mobile_worker.arithmetic.self_test import fixed_rows
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.serving import CodedTensor, Dispatch, ExpertCall
from mobile_worker.serve.compute import compute
from mobile_worker.servings.opened_rows import opened_bytes
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.backbone.books import build_leaves
from p2pmoe.backbone.outputs import CallResult
from p2pmoe.backbone.plan import ExpertRows
from p2pmoe.referee.recompute import Case, Finding, recompute
from p2pmoe.weights.expert_file import ExpertFile
from tests.support.backbone_model import POCKET, manifest_of, model_of
from tests.support.ledger_world import paper_tab
from tests.support.vouchers import PRICES, served

KERNEL = NumpyKernel()
LAYER, CALLS = 1, ((2, (0, 3)), (5, (1, 2, 4)))
N_EMBD = manifest_of(POCKET).n_embd
FLOATS = fixed_rows("step", 5, N_EMBD)
ROWS = ExpertInput(coded=quantize_rows(FLOATS))


def results_of(profile: Profile) -> list[bytes]:
    """What an honest worker answers to a dispatch of two calls."""
    file = ExpertFile(model_of(POCKET))
    dispatch = Dispatch(
        request=1,
        tab=b"tab-tab-",
        first_serving=7,
        layer=LAYER,
        deadline_ms=5000,
        price_epoch=1,
        nonce=b"nonce-00",
        profile=int(profile),
        n_embd=N_EMBD,
        coded=CodedTensor(
            codes=ROWS.coded.codes.tobytes(),
            scales=ROWS.coded.scales.astype("<f4").tobytes(),
        ),
        floats=None,
        n_rows=5,
        calls=tuple(ExpertCall(index=expert, rows=rows) for expert, rows in CALLS),
    )
    weights = [file.weights(ExpertId(LAYER, expert)) for expert, _ in CALLS]
    answer = compute(KERNEL, dispatch, weights)
    width = len(answer.results) // answer.n_rows
    cut = len(CALLS[0][1]) * width
    return [answer.results[:cut], answer.results[cut:]]


def leaves_of(results: list[bytes]) -> list[Leaf]:
    """What the backbone signs for."""
    answer = dataclasses.replace(
        served(7, (2, (0,)), (5, (1,))),
        layer=LAYER,
        rows=ROWS,
        results=tuple(
            CallResult(call=ExpertRows(expert=e, rows=r), values=FLOATS, coded=coded)
            for (e, r), coded in zip(CALLS, results, strict=True)
        ),
    )
    return [Leaf.parse(raw) for raw in split_leaves(build_leaves(answer, PRICES))]


def judge(leaf: Leaf, rows: tuple[int, ...], profile: Profile) -> Finding:
    """What the referee finds, from the leaf and the rows that the backbone kept."""
    tab = paper_tab()
    tab.serve(0)
    voucher = dataclasses.replace(
        tab.draft(),
        profile=int(profile),
        manifest_hash=manifest_hash(manifest_of(POCKET)),
    )
    kept = opened_bytes(ROWS.take(np.array(rows, np.int64)))
    case = Case(voucher=voucher, leaf=leaf, rows=Opening(Half.ROWS, kept))
    return recompute(case, model_of(POCKET), manifest_of(POCKET), KERNEL)


@pytest.mark.parametrize("profile", list(Profile))
def test_an_honest_worker_is_never_convicted(profile):
    for leaf, (_, rows) in zip(leaves_of(results_of(profile)), CALLS, strict=True):
        assert judge(leaf, rows, profile).is_equal


def shifted(coded: bytes, share: float) -> bytes:
    """The right values and a little noise."""
    n_rows = len(CALLS[0][1])
    values = decode_result(coded, Profile.R32, n_rows, N_EMBD)
    return encode_result(values * np.float32(1 + share), Profile.R32)


CHEATS = {
    "zeros": lambda right, other: bytes(len(right)),
    "the input unchanged": lambda right, other: FLOATS[[0, 3]].tobytes(),
    "another call's results": lambda right, other: other[: len(right)],
    "1 % of noise": lambda right, other: shifted(right, 0.01),
    "the last bit of one value": lambda right, other: bytes([right[0] ^ 1]) + right[1:],
    "one row of two": lambda right, other: right[: len(right) // 2] * 2,
    "not a number": lambda right, other: b"\xff\xff\xff\x7f" + right[4:],
    "nothing at all": lambda right, other: b"",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_whoever_gave_anything_else_is_convicted(cheat):
    right, other = results_of(Profile.R32)
    leaf, _ = leaves_of([CHEATS[cheat](right, other), other])
    found = judge(leaf, CALLS[0][1], Profile.R32)
    assert not found.is_equal
    assert found.results == right
