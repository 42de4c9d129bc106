"""Which format a stored dtype becomes, and which scales fit which codes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.quantization import Quantization, QuantizationMethod
from p2pmoe.weights.huggingface.rows import Items
from p2pmoe.weights.huggingface.safetensors import read_safetensors
from p2pmoe.weights.huggingface.stored_views import (
    PlacedTensor,
    fp8_view,
    is_f32,
    plain_view,
    stored_rows,
)
from p2pmoe.weights.huggingface.views import View
from tests.support.safetensors_folder import (
    SafeTensor,
    bf16,
    f32,
    safetensors_bytes,
    u8,
)

NONE = Quantization(method=QuantizationMethod.NONE)
WHOLE = Quantization(method=QuantizationMethod.FP8)
BLOCKS = Quantization(method=QuantizationMethod.FP8, block=(2, 2))
BYTES = Quantization(method=QuantizationMethod.FP8, block=(2, 2), has_byte_scales=True)
CODES = u8([[56, 56, 56], [56, 64, 56], [56, 56, 48]], "F8_E4M3")  # 1, 2 and 0.5
Place = Callable[..., PlacedTensor]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    def make(tensor: SafeTensor, name: str = "w") -> PlacedTensor:
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(safetensors_bytes({name: tensor}))
        file = OpenFile(path)
        return PlacedTensor(file, read_safetensors(file).tensors[name])

    return make


def bits_of(view: View) -> Items:
    out = np.empty((view.rows.n_rows, view.rows.n_items), view.rows.dtype)
    view.rows.fill(0, out)
    return out


def floats_of(view: View) -> list[list[float]]:
    wide = bits_of(view).astype(np.uint32) << 16
    return wide.view(np.float32).tolist()


@pytest.mark.parametrize(
    ("target", "n", "is_wide"),
    [
        ("blk.0.attn_q.weight", 2, False),
        ("blk.0.attn_norm.weight", 1, True),
        ("blk.0.attn_q_norm.weight", 2, True),
        ("blk.0.ffn_gate_inp.weight", 2, True),
        ("blk.0.ffn_gate_inp_shexp.weight", 2, True),
        ("blk.0.indexer.k_proj.weight", 2, True),
        ("blk.0.ffn_gate_exps.weight", 3, False),
        ("blk.0.ffn_gate_exps.bias", 2, True),
        ("token_embd.weight", 2, False),
    ],
)
def test_what_the_converter_keeps_in_f32(target: str, n: int, is_wide: bool) -> None:
    assert is_f32(target, n) is is_wide


def test_bfloat_stays_or_is_widened(place: Place) -> None:
    placed = place(bf16([[0x3F80, 0xC000]]))
    kept = plain_view(placed, "output.weight")
    assert (kept.format, bits_of(kept).tolist()) == (Format.BF16, [[0x3F80, 0xC000]])
    wide = plain_view(placed, "blk.0.ffn_gate_inp.weight")
    assert wide.format is Format.F32
    assert bits_of(wide).tolist() == [[1.0, -2.0]]


def test_half_precision_stays_or_is_widened(place: Place) -> None:
    halves = np.array([[1.5, -0.25]], np.float16)
    placed = place(SafeTensor("F16", (1, 2), halves.tobytes()))
    assert plain_view(placed, "output.weight").format is Format.F16
    wide = plain_view(placed, "output_norm.weight")
    assert bits_of(wide).tolist() == [[1.5, -0.25]]


def test_f32_is_copied(place: Place) -> None:
    view = plain_view(place(f32([[1.5, 2.5]])), "output.weight")
    assert view.format is Format.F32
    assert bits_of(view).view(np.float32).tolist() == [[1.5, 2.5]]


@pytest.mark.parametrize("dtype", ["U8", "I8", "BOOL", "F8_E8M0", "F8_E4M3FNUZ"])
def test_other_dtypes_are_no_weights(dtype: str, place: Place) -> None:
    with pytest.raises(UnsupportedModel, match=f"is of {dtype}, which"):
        plain_view(place(u8([[1]], dtype)), "output.weight")


@pytest.mark.parametrize("shape", [(0, 3), (1, 1, 1, 1, 1)])
def test_an_odd_shape_is_refused(shape: tuple[int, ...], place: Place) -> None:
    with pytest.raises(ModelFileError, match="has shape"):
        stored_rows(place(f32(np.zeros(shape))))


def test_endless_rows_are_refused(tmp_path: Path) -> None:
    n = (1 << 22) + 1
    head = safetensors_bytes({"w": f32([])}).replace(
        b'"shape": [0]', b'"shape": [%d]' % n
    )
    head = head.replace(b"[0, 0]}", b"[0, %d]}" % (4 * n))
    raw = (len(head) - 8).to_bytes(8, "little") + head[8:]
    path = tmp_path / "w.safetensors"
    path.write_bytes(raw)
    with path.open("r+b") as file:
        file.truncate(len(raw) + 4 * n)  # a hole on the disk
    opened = OpenFile(path)
    placed = PlacedTensor(opened, read_safetensors(opened).tensors["w"])
    with pytest.raises(ModelFileError, match="rows of 4194305 values are longer"):
        stored_rows(placed)


BLOCK_SCALES = [[1.0, 10.0], [100.0, 1000.0]]
BY_BLOCKS = [[1, 1, 10], [1, 2, 10], [100, 100, 500]]


@pytest.mark.parametrize(
    ("scales", "quantization", "expected"),
    [
        (f32(BLOCK_SCALES), BLOCKS, BY_BLOCKS),
        (u8([[127, 128], [126, 130]], "F8_E8M0"), BLOCKS, None),
        (u8([[127, 128], [126, 130]]), BYTES, [[1, 1, 2], [1, 2, 2], [0.5, 0.5, 4]]),
        (f32(3.0), WHOLE, [[3, 3, 3], [3, 6, 3], [3, 3, 1.5]]),
        (f32([3.0]), WHOLE, [[3, 3, 3], [3, 6, 3], [3, 3, 1.5]]),
        (f32([[3.0]]), WHOLE, [[3, 3, 3], [3, 6, 3], [3, 3, 1.5]]),
        (f32([1.0, 2.0, 4.0]), WHOLE, [[1, 1, 1], [2, 4, 2], [4, 4, 2]]),
        (f32([[1.0], [2.0], [4.0]]), WHOLE, [[1, 1, 1], [2, 4, 2], [4, 4, 2]]),
    ],
)
def test_scales_of_blocks_rows_and_whole_matrices(
    scales: SafeTensor,
    quantization: Quantization,
    expected: list[list[float]] | None,
    place: Place,
) -> None:
    view = fp8_view(place(CODES), place(scales, "s"), "output.weight", quantization)
    assert (view.format, view.shape) == (Format.BF16, (3, 3))
    assert floats_of(view) == (expected or [[1, 1, 2], [1, 2, 2], [0.5, 0.5, 4]])


def test_a_scale_for_each_matrix_of_a_stack(place: Place) -> None:
    codes = u8([[[56, 56]], [[64, 56]]], "F8_E4M3")
    view = fp8_view(place(codes), place(f32([3.0, 5.0]), "s"), "x.weight", WHOLE)
    assert view.shape == (2, 1, 2)
    assert floats_of(view) == [[3, 3], [10, 5]]


@pytest.mark.parametrize(
    ("codes", "scales", "quantization", "message"),
    [
        (CODES, f32([[1.0, 2.0]]), BLOCKS, "does not scale"),
        (CODES, f32(1.0), BLOCKS, "does not scale"),
        (CODES, f32([1.0, 2.0]), WHOLE, "does not scale"),
        (CODES, u8([[1, 1], [1, 1]]), BLOCKS, "is of U8, which is no scale"),
        (CODES, f32(BLOCK_SCALES), NONE, "config.json does not explain"),
        (u8([56, 56], "F8_E4M3"), f32(1.0), WHOLE, "scales no matrix"),
        (u8([[1]]), f32(1.0), WHOLE, "is of U8, which config.json does not"),
    ],
)
def test_scales_that_do_not_fit_are_refused(
    codes: SafeTensor,
    scales: SafeTensor,
    quantization: Quantization,
    message: str,
    place: Place,
) -> None:
    with pytest.raises(ModelFileError, match=message):
        fp8_view(place(codes), place(scales, "s"), "output.weight", quantization)
