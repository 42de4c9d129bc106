"""FP8 weights with their scales, presented as BF16.

A value is bf16(f32(code) * f32(scale)), each step rounded to nearest even: what the
publishers' own conversions give. A scale covers a block of rows x columns (128 x 128 as
DeepSeek publishes, 1 x 32 of MXFP8, whole rows, or the whole matrix); blocks at the
edges are cut off. Codes that are no number, and products beyond BF16, are refused when
they are read.

Source: the OCP 8-bit floating point specification; DeepSeek-V3's `weight_scale_inv`.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.huggingface.rows import Items, Rows
from p2pmoe.weights.huggingface.safetensors import Dtype

__all__ = ["Fp8Rows", "ScaleGrid", "bfloat_bits", "fp8_values"]

_U8 = np.dtype(np.uint8)
_U16 = np.dtype(np.uint16)
_F32 = np.dtype(np.float32)
_PIECE_VALUES = 1 << 20
_INFINITE = np.uint16(0x7F80)


@cache
def fp8_values(dtype: Dtype) -> npt.NDArray[np.float32]:
    """Return the value of each of the 256 codes of F8_E4M3 or F8_E5M2; NaN for none."""
    mantissa_bits, bias = (3, 7) if dtype is Dtype.F8_E4M3 else (2, 15)
    codes = np.arange(256)
    exponent = (codes & 127) >> mantissa_bits
    fraction = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    normal = np.ldexp(1 + fraction, exponent - bias)
    subnormal = np.ldexp(fraction, 1 - bias)
    values = np.where(exponent == 0, subnormal, normal)
    values = np.where(codes & 128, -values, values).astype(np.float32)
    if dtype is Dtype.F8_E4M3:
        values[(codes & 127) == 127] = np.nan
    else:
        values[exponent == 31] = np.nan
    return values


def bfloat_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Return F32 values as BF16 bits, rounded to nearest even; NaN stays NaN."""
    bits = values.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


@dataclass(frozen=True, slots=True)
class ScaleGrid:
    """Scales [matrices * grid rows, grid columns], each over a block of codes.

    `matrix_rows` are the rows of codes of one matrix; `dtype` F32, BF16, F16 or E8M0.
    """

    rows: Rows
    dtype: Dtype
    block_rows: int
    block_cols: int
    matrix_rows: int

    def of_row(self, row: int) -> tuple[npt.NDArray[np.float32], int]:
        """Return the scales that row `row` of the codes has, and its block's end."""
        matrix, within = divmod(row, self.matrix_rows)
        grid_rows = -(-self.matrix_rows // self.block_rows)
        place = np.empty((1, self.rows.n_items), self.rows.dtype)
        self.rows.fill(matrix * grid_rows + within // self.block_rows, place)
        end = min((within // self.block_rows + 1) * self.block_rows, self.matrix_rows)
        return self._floats(place[0]), matrix * self.matrix_rows + end

    def _floats(self, raw: Items) -> npt.NDArray[np.float32]:
        if self.dtype is Dtype.BF16:
            return np.left_shift(raw, 16, dtype=np.uint32).view(_F32)
        if self.dtype is Dtype.F16:
            with np.errstate(invalid="ignore"):
                return raw.view(np.float16).astype(_F32)
        if self.dtype is Dtype.F32:
            return raw.view(_F32)
        scales = np.ldexp(np.float32(1.0), raw.astype(np.int32) - 127)
        return np.where(raw == 255, np.float32(np.nan), scales).astype(_F32)


@dataclass(frozen=True, slots=True)
class Fp8Rows:
    """Rows of BF16 bits from FP8 `codes` and their scales."""

    path: Path
    name: str
    codes: Rows
    dtype_of_codes: Dtype
    grid: ScaleGrid

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        return self.codes.n_rows

    @property
    def n_items(self) -> int:
        """Items of a row."""
        return self.codes.n_items

    @property
    def dtype(self) -> np.dtype[Any]:
        """BF16 bits."""
        return _U16

    def fill(self, first: int, out: Items) -> None:
        """Decode block row by block row; ModelFileError if a value is not finite."""
        step = max(1, _PIECE_VALUES // self.n_items)
        row = first
        while row < first + len(out):
            scales, end = self.grid.of_row(row)
            end = min(end, first + len(out), row + step)
            place = out[row - first : end - first]
            self._decode(row, scales, place)
            if ((place & _INFINITE) == _INFINITE).any():
                reason = f"a value in rows {row} to {end - 1} is not finite"
                raise ModelFileError(self.path, reason, tensor=self.name)
            row = end

    def _decode(self, row: int, scales: npt.NDArray[np.float32], place: Items) -> None:
        codes = np.empty(place.shape, _U8)
        self.codes.fill(row, codes)
        values = fp8_values(self.dtype_of_codes)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.grid.block_cols < 64 or len(place) < 8:  # few codes for a table
                spread = np.repeat(scales, self.grid.block_cols)[: self.n_items]
                place[...] = bfloat_bits(values[codes] * spread)
                return
            tables = bfloat_bits(values[None, :] * scales[:, None])
        for number, table in enumerate(tables):
            at = number * self.grid.block_cols
            block = slice(at, at + self.grid.block_cols)
            place[:, block] = table[codes[:, block]]
