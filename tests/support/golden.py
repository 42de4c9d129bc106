"""The golden bytes of the arithmetic (tests/vectors/arithmetic), as arrays."""

import json
from pathlib import Path

import numpy as np

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix

__all__ = ["golden", "to_expert", "to_floats", "to_matrix", "to_rows"]

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


def to_rows(case):
    """Return the input of a case of products.json or refused.json."""
    n, n_cols = case["n"], case["n_cols"]
    if "x" in case:
        return ExpertInput(floats=to_floats(case["x"], n_cols))
    codes = np.frombuffer(bytes.fromhex(case["codes"]), np.int8).reshape(n, n_cols)
    scales = to_floats(case["scales"], n_cols // 32)
    return ExpertInput(coded=CodedRows(codes=codes, scales=scales))


def to_expert(case):
    """Return the weights of a case of experts.json."""
    n_ff, n_embd = case["n_ff"], case["n_embd"]
    shapes = {"gate": (n_ff, n_embd), "up": (n_ff, n_embd), "down": (n_embd, n_ff)}
    parts = {
        part: to_matrix(case[part], name, *shapes[part])
        for part, name in zip(shapes, case["formats"], strict=True)
    }
    biases = {
        f"{part}_bias": to_floats(case[f"{part}_bias"])
        for part in shapes
        if f"{part}_bias" in case
    }
    activation = Activation(
        kind=ActivationKind[case["activation"]],
        alpha=case["alpha"],
        limit=case["limit"],
    )
    return ExpertWeights(**parts, **biases, activation=activation)
