import hashlib
import itertools
import struct

import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import ActivationKind
from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import (
    FORMATS,
    SELF_TEST_DIGEST,
    fixed_bytes,
    fixed_experts,
    fixed_matrix,
    fixed_rows,
    self_test,
)
from tests.support import arithmetic_oracle as oracle


def test_this_machine_passes() -> None:
    assert self_test(NumpyKernel()) == SELF_TEST_DIGEST


def test_one_bit_is_noticed() -> None:
    class OneBitOff(NumpyKernel):
        def expert(self, weights, rows, profile):
            coded = bytearray(super().expert(weights, rows, profile))
            coded[0] ^= 1
            return bytes(coded)

    assert self_test(OneBitOff()) != SELF_TEST_DIGEST


def test_inputs_are_hashes_in_counter_mode() -> None:
    expected = (
        hashlib.sha256(b"x\0\0\0\0").digest() + hashlib.sha256(b"x\1\0\0\0").digest()
    )
    assert fixed_bytes("x", 40) == expected[:40]
    assert np.abs(fixed_rows("x", 2, 32)).max() <= 8.0


def test_every_format_is_gate_up_and_down_with_each_activation() -> None:
    seen = set()
    for weights in fixed_experts():
        has_bias = weights.gate_bias is not None
        kind = weights.activation.kind
        assert has_bias == (kind is ActivationKind.SWIGLU_OAI)
        for part in ("gate", "up", "down"):
            seen.add((part, getattr(weights, part).format, kind))
    parts = itertools.product(("gate", "up", "down"), FORMATS, ActivationKind)
    assert set(parts) <= seen


def oracle_rows(n_embd: int) -> list[list[float]]:
    raw = fixed_bytes(f"p2pmoe self-test rows {n_embd}", 2 * 9 * n_embd)
    values = [each / 4096 for each in struct.unpack(f"<{9 * n_embd}h", raw)]
    return [values[i * n_embd :][:n_embd] for i in range(9)]


def oracle_results(weights: ExpertWeights, rows: list[list[float]]) -> bytes:
    parts, biases = {}, {}
    for part in ("gate", "up", "down"):
        matrix, bias = getattr(weights, part), getattr(weights, f"{part}_bias")
        size = matrix.raw.nbytes // matrix.n_rows
        raw = [bytes(matrix.raw[size * i :][:size]) for i in range(matrix.n_rows)]
        parts[part] = (matrix.format.name, raw)
        if bias is not None:
            biases[part] = bias.tolist()
    kind = weights.activation.kind.name
    values = [oracle.expert_values(parts, kind, x, biases) for x in rows]
    coded = [oracle.encode_row(y, p) for p in ("R32", "R16", "R8") for y in values]
    return b"".join([*coded, oracle.encode_row(values[0], "R16")])


@pytest.mark.slow
def test_the_digest_is_the_plain_loops() -> None:
    digest = hashlib.sha256()
    rows = {n_embd: oracle_rows(n_embd) for n_embd in (32, 256)}
    for n_embd, own in rows.items():
        coded = [oracle.quantize_row(x, 127) for x in own]
        digest.update(b"".join(struct.pack(f"{n_embd}b", *c) for c, _ in coded))
        digest.update(b"".join(struct.pack(f"<{len(s)}f", *s) for _, s in coded))
    for weights in fixed_experts():
        digest.update(oracle_results(weights, rows[weights.gate.n_cols]))
    assert digest.digest() == SELF_TEST_DIGEST


def test_fixed_matrices_are_numbers() -> None:
    for block_format in FORMATS:
        values = dequantize(fixed_matrix("m", block_format, 8, 256))
        assert np.isfinite(values).all()
        assert np.abs(values).max() > 0.01
