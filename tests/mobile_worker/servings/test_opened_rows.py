"""Opened bytes are rows of one kind only, told by their length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.errors import CodeRefused, NonFinite, ShapeMismatch
from mobile_worker.arithmetic.self_test import fixed_rows
from mobile_worker.servings.hashes import out_hash, x_hash
from mobile_worker.servings.opened_rows import opened_bytes, rows_from


@given(
    st.integers(1, 5),
    st.sampled_from([32, 64, 96]),
    st.sampled_from(["coded", "floats", "both"]),
)
def test_round_trip(n_rows, n_embd, kind):
    floats = fixed_rows("opened", n_rows, n_embd)
    rows = ExpertInput(
        coded=None if kind == "floats" else quantize_rows(floats),
        floats=None if kind == "coded" else floats,
    )
    opened = opened_bytes(rows)
    assert out_hash(opened) == x_hash(rows)  # both are plain hashes of bytes
    found = rows_from(opened, n_rows, n_embd)
    assert opened_bytes(found) == opened
    assert (found.coded is None, found.floats is None) == (
        rows.coded is None,
        rows.floats is None,
    )


def test_other_lengths_and_values_are_refused():
    opened = opened_bytes(ExpertInput(coded=quantize_rows(fixed_rows("a", 2, 64))))
    for bad in (b"", opened[:-1], opened + b"\0", opened * 2):
        with pytest.raises(ShapeMismatch):
            rows_from(bad, 2, 64)
    with pytest.raises(ShapeMismatch):
        rows_from(opened, 3, 64)
    with pytest.raises(ShapeMismatch):
        rows_from(bytes(40), 1, 33)
    with pytest.raises(CodeRefused):
        rows_from(b"\x80" + opened[1:], 2, 64)
    with pytest.raises(CodeRefused):
        rows_from(opened[:-4] + np.float32(np.nan).tobytes(), 2, 64)
    floats = np.full((2, 64), np.inf, np.float32).tobytes()
    with pytest.raises(NonFinite):
        rows_from(floats, 2, 64)
