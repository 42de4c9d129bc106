"""The golden bytes of the arithmetic (tests/vectors/arithmetic), as arrays."""

import json
from pathlib import Path

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["golden", "to_floats", "to_matrix"]

_FOLDER = Path(__file__).parents[1] / "vectors" / "arithmetic"


def golden(name):
    return json.loads((_FOLDER / name).read_text(encoding="utf-8"))


def to_floats(text, n_cols=None):
    values = np.frombuffer(bytes.fromhex(text), "<f4").astype(np.float32)
    return values if n_cols is None else values.reshape(-1, n_cols)


def to_matrix(text, name, n_rows, n_cols):
    return Matrix(
        format=Format[name],
        n_rows=n_rows,
        n_cols=n_cols,
        raw=memoryview(bytes.fromhex(text)),
    )
