import dataclasses

import numpy as np
import pytest

from mobile_worker.arithmetic.activation import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.errors import FormatUnsupported, MatrixMalformed
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_rows
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.manifest import ExpertLayout
from mobile_worker.shards.shard import (
    ShardMisfit,
    check_expert,
    expert_weights,
    matrix_bytes,
    shard_bytes,
    weights_of_parts,
)
from tests.support.kernels import all_kernels, kernel_name


def layout(gate: int, up: int, down: int, n_embd: int, n_ff: int) -> ExpertLayout:
    return ExpertLayout(
        gate_format=gate,
        up_format=up,
        down_format=down,
        n_embd=n_embd,
        n_ff=n_ff,
        activation=Activation(kind=ActivationKind.SWIGLU),
    )


MIXED = layout(Format.Q4_0, Format.Q8_0, Format.F16, 64, 32)


def test_a_shard_is_gate_then_up_then_down() -> None:
    gate, up, down = 32 * 2 * 18, 32 * 2 * 34, 64 * 32 * 2
    assert matrix_bytes(MIXED) == (gate, up, down)
    shard = b"g" * gate + b"u" * up + b"d" * down
    weights = expert_weights(shard, MIXED)
    assert bytes(weights.gate.raw) == b"g" * gate
    assert bytes(weights.up.raw) == b"u" * up
    assert bytes(weights.down.raw) == b"d" * down
    assert (weights.gate.n_rows, weights.gate.n_cols) == (32, 64)
    assert (weights.down.n_rows, weights.down.n_cols) == (64, 32)
    assert weights.down.format is Format.F16
    assert weights.activation == MIXED.activation


def biased_shard() -> tuple[ExpertLayout, bytes]:
    """Rows of 17-byte blocks, so that the biases lie at an odd offset."""
    own = layout(Format.MXFP4, Format.MXFP4, Format.MXFP4, 32, 32)
    own = dataclasses.replace(own, biased=True)
    blocks = b"".join(bytes([100, *range(16)]) for _ in range(96))
    biases = np.arange(96, dtype="<f4")
    return own, blocks + biases.tobytes()


def test_biases_follow_the_matrices() -> None:
    own, shard = biased_shard()
    assert shard_bytes(own) == len(shard) == 96 * 17 + 96 * 4
    weights = expert_weights(shard, own)
    assert bytes(weights.down.raw) == shard[64 * 17 : 96 * 17]
    biases = (weights.gate_bias, weights.up_bias, weights.down_bias)
    for number, bias in enumerate(biases):
        assert bias is not None
        assert np.array_equal(bias, np.arange(32) + 32 * number)
        assert bias.flags.aligned
    check_expert(weights, ExpertId(0, 1))
    with pytest.raises(ShardMisfit, match=f"needs {len(shard)} bytes"):
        expert_weights(shard[: 96 * 17], own)


@pytest.mark.parametrize("kernel", all_kernels(), ids=kernel_name)
def test_every_kernel_adds_the_biases_of_a_shard(kernel: Kernel) -> None:
    own, shard = biased_shard()
    plain = expert_weights(shard[: 96 * 17], dataclasses.replace(own, biased=False))
    weights = expert_weights(shard, own)
    reference = NumpyKernel()
    rows = ExpertInput(coded=reference.code_rows(fixed_rows("x", 3, 32)), floats=None)
    found = kernel.expert(weights, rows, Profile.R32)
    assert found == reference.expert(weights, rows, Profile.R32)
    assert found != reference.expert(plain, rows, Profile.R32)


@pytest.mark.parametrize(("part", "at"), [("gate", 0), ("up", 32), ("down", 64)])
def test_a_bias_that_is_no_number_is_named(part: str, at: int) -> None:
    own, shard = biased_shard()
    bad = bytearray(shard)
    start = 96 * 17 + 4 * (at + 5)
    bad[start : start + 4] = b"\0\0\xc0\x7f"
    reason = rf"{part} bias of expert 3\.9: value 5 is no finite number"
    with pytest.raises(MatrixMalformed, match=reason):
        check_expert(expert_weights(bad, own), ExpertId(3, 9))


def test_matrices_are_views_of_the_shard() -> None:
    shard = bytearray(shard_bytes(MIXED))
    weights = expert_weights(shard, MIXED)
    shard[0] = 7
    assert weights.gate.raw[0] == 7


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_shard_of_another_length_is_refused(difference: int) -> None:
    needed = shard_bytes(MIXED)
    with pytest.raises(ShardMisfit, match=f"needs {needed} bytes"):
        expert_weights(bytes(needed + difference), MIXED)


def test_b05_sizes_of_q4_k() -> None:
    big = layout(Format.Q4_K, Format.Q4_K, Format.Q6_K, 4096, 14336)
    gate, up, _ = matrix_bytes(big)
    assert gate == up == 33_030_144
    assert gate // 14336 == 2304


def test_b05_a_row_that_ends_within_a_block_is_refused() -> None:
    with pytest.raises(MatrixMalformed, match="1000"):
        matrix_bytes(layout(Format.Q8_0, Format.Q8_0, Format.Q8_0, 1000, 64))


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(FormatUnsupported, match="250"):
        shard_bytes(layout(250, 0, 0, 64, 32))


@pytest.mark.parametrize("known", [Format.IQ2_XS, Format.TQ1_0, Format.I32])
def test_a_format_without_arithmetic_is_never_held(known: Format) -> None:
    n_embd = n_ff = 256
    strange = layout(Format.F32, Format.F32, known, n_embd, n_ff)
    shard = bytes(shard_bytes(strange))
    with pytest.raises(FormatUnsupported, match=known.name):
        expert_weights(shard, strange)


@pytest.mark.parametrize(
    ("part", "row", "at"),
    [("gate", 31, 0), ("up", 3, 32 * 2 * 18), ("down", 63, 32 * 2 * (18 + 34))],
)
def test_a_part_that_holds_no_numbers_is_named(part: str, row: int, at: int) -> None:
    shard = bytearray(shard_bytes(MIXED))
    check_expert(expert_weights(shard, MIXED), ExpertId(7, 12))
    row_size = {"gate": 36, "up": 68, "down": 64}[part]
    shard[at + row * row_size : at + row * row_size + 2] = b"\0\x7c"
    weights = expert_weights(shard, MIXED)
    with pytest.raises(MatrixMalformed, match=f"{part} of expert 7.12: row {row} of"):
        check_expert(weights, ExpertId(7, 12))


def test_mxfp4_exponent_255_is_refused() -> None:
    own = layout(Format.MXFP4, Format.MXFP4, Format.MXFP4, 64, 32)
    shard = bytearray(shard_bytes(own))
    shard[-17] = 255
    with pytest.raises(MatrixMalformed, match=r"down of expert 0\.1: row 63 of a"):
        check_expert(expert_weights(shard, own), ExpertId(0, 1))


def test_a_shard_that_is_no_bytes_side_by_side_is_refused() -> None:
    shard = memoryview(bytes(2 * shard_bytes(MIXED)))[::2]
    with pytest.raises(ShardMisfit, match="side by side"):
        expert_weights(shard, MIXED)


def test_a_shard_may_be_read_only_and_begin_anywhere() -> None:
    own = layout(Format.F32, Format.F16, Format.Q4_K, 256, 256)
    raw = bytes(range(256)) * (shard_bytes(own) // 256 + 1)
    for start in (0, 1, 3):
        view = memoryview(raw)[start : start + shard_bytes(own)]
        weights = expert_weights(view, own)
        values = dequantize(weights.gate)
        assert values.tobytes() == bytes(view[: values.nbytes])
        assert np.isfinite(dequantize(weights.down)).all()


def test_parts_of_other_lengths_are_refused():
    parts = [memoryview(bytes(n)) for n in matrix_bytes(MIXED)]
    assert weights_of_parts(parts, MIXED).gate.n_rows == 32
    with pytest.raises(ShardMisfit, match="parts have not"):
        weights_of_parts(parts[::-1], MIXED)
