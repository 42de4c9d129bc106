"""Golden rows of canaries, and that they are exact in every form."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.coding import check_coded
from mobile_worker.arithmetic.errors import ShapeMismatch
from mobile_worker.expert_id import ExpertId
from mobile_worker.serve.canary_rows import MAX_CANARY_ROWS, canary_rows
from mobile_worker.servings.hashes import x_hash

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "vectors" / "canary.json").read_text(encoding="ascii")
)


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_rows(case) -> None:
    expert = ExpertId(case["layer"], case["index"])
    rows = canary_rows(
        bytes.fromhex(case["seed"]), expert, case["n_rows"], case["n_embd"]
    )
    assert rows.coded.codes.tobytes()[:32].hex() == case["codes"]
    assert rows.coded.scales.astype("<f4").tobytes()[:16].hex() == case["scales"]
    assert rows.floats.astype("<f4").tobytes()[:16].hex() == case["floats"]
    assert x_hash(rows).hex() == case["x_hash"]


def test_rows_by_the_words_of_the_module() -> None:
    """Without numpy, from the specification alone."""
    seed, n_rows, n_embd = b"s" * 32, 2, 32
    stream = hashlib.shake_256(seed + (3 << 16 | 7).to_bytes(4, "big")).digest(66)
    codes = [(b - 256 if b > 127 else b) for b in stream[:64]]
    codes = [0 if code == -128 else code for code in codes]
    scales = [(256 + b) / 2**15 for b in stream[64:]]
    rows = canary_rows(seed, ExpertId(3, 7), n_rows, n_embd)
    assert rows.coded.codes.ravel().tolist() == codes
    assert rows.coded.scales.ravel().tolist() == scales
    floats = [code * scales[at // 32] for at, code in enumerate(codes)]
    assert rows.floats.ravel().tolist() == floats


@given(
    st.binary(min_size=32, max_size=32),
    st.integers(0, 0xFFFF),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_floats_are_exactly_codes_times_scales(seed, layer, n_rows, n_blocks) -> None:
    rows = canary_rows(seed, ExpertId(layer, 1), n_rows, 32 * n_blocks)
    check_coded(rows.coded)
    exact = rows.coded.codes.astype(np.float64) * np.repeat(
        rows.coded.scales.astype(np.float64), 32, axis=1
    )
    assert (rows.floats == exact).all()
    assert rows.floats.dtype == np.float32
    assert (np.abs(rows.floats) < 2).all()
    assert ((rows.coded.scales >= 2**-7) & (rows.coded.scales < 2**-6)).all()


def test_other_seeds_and_experts_give_other_rows() -> None:
    rows = [
        canary_rows(seed, expert, 1, 64)
        for seed in (b"a" * 32, b"b" * 32)
        for expert in (ExpertId(0, 0), ExpertId(0, 1), ExpertId(1, 0))
    ]
    assert len({x_hash(each) for each in rows}) == 6


@pytest.mark.parametrize(
    ("n_rows", "n_embd"),
    [(0, 32), (MAX_CANARY_ROWS + 1, 32), (1, 0), (1, 31), (1, -32)],
)
def test_absurd_shapes_are_refused(n_rows: int, n_embd: int) -> None:
    with pytest.raises(ShapeMismatch):
        canary_rows(b"s" * 32, ExpertId(0, 0), n_rows, n_embd)
