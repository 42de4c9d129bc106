"""Hashes are the rows' own, and cost nothing when nobody traces."""

import hashlib

import numpy as np
import pytest

from p2pmoe.backbone import row_hashes
from p2pmoe.backbone.row_hashes import (
    keep_input_hashes,
    keep_output_hashes,
    row_hash,
)
from p2pmoe.backbone.trace import RequestTrace, StepTrace

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_a_hash_is_blake2b_of_the_rows_bytes() -> None:
    expected = hashlib.blake2b(ROWS[1].tobytes(), digest_size=8).digest()
    assert row_hash(ROWS[1]) == expected
    assert row_hash(ROWS.T[1]) == row_hash(ROWS.T[1].copy())
    changed = ROWS[1].copy()
    changed.view(np.uint32)[2] ^= 1
    assert row_hash(changed) != expected


def test_only_traced_rows_are_hashed() -> None:
    plain, traced = RequestTrace(), RequestTrace()
    traced.traces, traced.position = True, 7
    step = StepTrace([(plain, 1), (traced, 2)])
    keep_input_hashes(step, 4, ROWS)
    rows = np.array([0, 2])
    keep_output_hashes(step, 4, {9: (rows, ROWS[rows] * 2)})
    assert step.hashes(0) == ()
    found = [(h.position, h.layer, h.expert, h.digest) for h in step.hashes(1)]
    assert found == [
        (7, 4, None, row_hash(ROWS[1])),
        (8, 4, None, row_hash(ROWS[2])),
        (8, 4, 9, row_hash(ROWS[2] * 2)),
    ]


def test_nothing_is_computed_when_nobody_traces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_hashes, "row_hash", None)
    step = StepTrace([(RequestTrace(), 3)])
    keep_input_hashes(step, 4, ROWS)
    keep_output_hashes(step, 4, {9: (np.arange(3), ROWS)})
    assert step.hashes(0) == ()
