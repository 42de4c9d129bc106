"""One stored tensor as a view: its dtype becomes one of GGUF's formats.

F32, F16 and BF16 stay what they are; FP8 with its scales becomes BF16; what GGUF keeps
in F32 (see `is_f32`) is widened. Any other dtype is refused by name.
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.fp8 import Fp8Rows, ScaleGrid
from p2pmoe.weights.huggingface.quantization import Quantization, QuantizationMethod
from p2pmoe.weights.huggingface.rows import Stored, Widened
from p2pmoe.weights.huggingface.safetensors import Dtype, StoredTensor
from p2pmoe.weights.huggingface.views import View

__all__ = [
    "FP8",
    "MAX_COLUMNS",
    "PlacedTensor",
    "fp8_view",
    "is_f32",
    "plain_view",
    "stored_rows",
]

_FORMATS = {Dtype.F32: Format.F32, Dtype.F16: Format.F16, Dtype.BF16: Format.BF16}
_NUMPY = {size: np.dtype(f"u{size}") for size in (1, 2, 4)}
MAX_COLUMNS = 1 << 22
_MAX_DIMENSIONS = 4
_ROUTERS = (".ffn_gate_inp.weight", ".ffn_gate_inp_shexp.weight")
_SCALES = (Dtype.F32, Dtype.BF16, Dtype.F16, Dtype.F8_E8M0)
FP8 = (Dtype.F8_E4M3, Dtype.F8_E5M2)


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """A stored tensor and the open file that holds it."""

    file: OpenFile
    tensor: StoredTensor

    @property
    def path(self) -> Path:
        """The file, for messages."""
        return self.file.path


def is_f32(target: str, n_dimensions: int) -> bool:
    """Return whether llama.cpp's converter writes `target` in F32 whatever it was."""
    return (
        n_dimensions <= 1
        or not target.endswith(".weight")
        or target.endswith("_norm.weight")
        or target.endswith(_ROUTERS)
        or ".indexer." in target
    )


def stored_rows(placed: PlacedTensor) -> Stored:
    """Return a tensor's values as rows of bits; ModelFileError if they are too wide."""
    tensor = placed.tensor
    if len(tensor.shape) > _MAX_DIMENSIONS or 0 in tensor.shape:
        raise ModelFileError(
            placed.path, f"has shape {list(tensor.shape)}", tensor=tensor.name
        )
    n_cols = tensor.shape[-1] if tensor.shape else 1
    if n_cols > MAX_COLUMNS:
        reason = f"rows of {n_cols} values are longer than {MAX_COLUMNS}"
        raise ModelFileError(placed.path, reason, tensor=tensor.name)
    n_rows = prod(tensor.shape[:-1])
    dtype = _NUMPY[tensor.n_bytes // (n_rows * n_cols)]
    return Stored(placed.file, tensor.offset, n_rows, n_cols, dtype)


def plain_view(placed: PlacedTensor, target: str) -> View:
    """Return an F32, F16 or BF16 tensor; UnsupportedModel if it is of another dtype."""
    tensor = placed.tensor
    if tensor.dtype not in _FORMATS:
        reason = f"is of {tensor.dtype.value}, which is read as no weight here"
        raise UnsupportedModel(placed.path, reason, tensor=tensor.name)
    shape = tensor.shape or (1,)
    return _widened(View(_FORMATS[tensor.dtype], shape, stored_rows(placed)), target)


def fp8_view(
    placed: PlacedTensor, scale: PlacedTensor, target: str, quantization: Quantization
) -> View:
    """Return FP8 codes with their scales as BF16.

    Raises:
        UnsupportedModel: FP8 without a quantization_config that says so.
        ModelFileError: the scales do not fit the codes.
    """
    codes = placed.tensor
    if quantization.method is not QuantizationMethod.FP8 or codes.dtype not in FP8:
        reason = f"is of {codes.dtype.value}, which config.json does not explain"
        raise UnsupportedModel(placed.path, reason, tensor=codes.name)
    rows = Fp8Rows(
        placed.path,
        codes.name,
        stored_rows(placed),
        codes.dtype,
        _grid(codes, scale, quantization),
    )
    return _widened(View(Format.BF16, codes.shape, rows), target)


def _grid(
    codes: StoredTensor, scale: PlacedTensor, quantization: Quantization
) -> ScaleGrid:
    tensor = scale.tensor
    dtype = tensor.dtype
    if dtype is Dtype.U8 and quantization.has_byte_scales:
        dtype = Dtype.F8_E8M0
    if dtype not in _SCALES:
        reason = f"is of {tensor.dtype.value}, which is no scale"
        raise UnsupportedModel(scale.path, reason, tensor=tensor.name)
    if len(codes.shape) < 2:
        raise ModelFileError(scale.path, "scales no matrix", tensor=tensor.name)
    n_rows, n_cols = codes.shape[-2:]
    n_matrices = prod(codes.shape[:-2])
    for block_rows, block_cols in _blocks(quantization, n_rows, n_cols):
        n_scales = (-(-n_rows // block_rows), -(-n_cols // block_cols))
        if _fits(tensor.shape, codes.shape[:-2], n_scales):
            stored = stored_rows(scale)
            rows = Stored(
                stored.file,
                stored.offset,
                n_matrices * n_scales[0],
                n_scales[1],
                stored.dtype,
            )
            return ScaleGrid(rows, dtype, block_rows, block_cols, n_rows)
    reason = f"of shape {list(tensor.shape)} does not scale {list(codes.shape)}"
    raise ModelFileError(scale.path, reason, tensor=tensor.name)


def _blocks(
    quantization: Quantization, n_rows: int, n_cols: int
) -> tuple[tuple[int, int], ...]:
    if quantization.block is not None:
        return (quantization.block,)
    return (n_rows, n_cols), (1, n_cols)


def _fits(
    shape: tuple[int, ...], outer: tuple[int, ...], n_scales: tuple[int, int]
) -> bool:
    """One scale a matrix may be written as [], [1] or [1, 1]; one a row as [n]."""
    if shape == (*outer, *n_scales):
        return True
    if n_scales[1] != 1:
        return False
    return shape == (*outer, n_scales[0]) or (n_scales[0] == 1 and shape == outer)


def _widened(view: View, target: str) -> View:
    if view.format is Format.F32 or not is_f32(target, len(view.shape)):
        return view
    rows = Widened(view.rows, is_bfloat=view.format is Format.BF16)
    return View(Format.F32, view.shape, rows)
