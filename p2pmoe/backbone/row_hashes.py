"""Hashes of what goes into a layer's experts and what comes out, for traced requests.

A hash is 8 bytes of BLAKE2b over a row's f32 values, little-endian. Nothing is computed
for rows of requests that are not traced. Where an expert ran changes no hash.
"""

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.trace import StepTrace

__all__ = ["keep_input_hashes", "keep_output_hashes", "row_hash"]

_N_BYTES = 8


def row_hash(row: Floats) -> bytes:
    """Return the hash of one row, f32 [n]."""
    raw = np.ascontiguousarray(row, "<f4").tobytes()
    return hashlib.blake2b(raw, digest_size=_N_BYTES).digest()


def keep_input_hashes(step: StepTrace, layer: int, hidden: Floats) -> None:
    """Keep the hash of each traced row of a layer's input, f32 [n_tokens, n_embd]."""
    if step.is_traced:
        for at, row in enumerate(hidden):
            if step.wants_hash(at):
                step.hashed(at, layer, None, row_hash(row))


def keep_output_hashes(
    step: StepTrace,
    layer: int,
    outputs: Mapping[int, tuple[npt.NDArray[np.int64], Floats]],
) -> None:
    """Keep the hash of each traced row that each expert returned.

    `outputs` maps an expert to its rows of the step [m] and results f32 [m, n_embd].
    """
    if step.is_traced:
        for expert, (rows, values) in outputs.items():
            for at, value in zip(rows.tolist(), values, strict=True):
                if step.wants_hash(at):
                    step.hashed(at, layer, expert, row_hash(value))
