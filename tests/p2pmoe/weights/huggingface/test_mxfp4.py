"""gpt-oss's blocks and GGUF's mean the same numbers: two decoders written apart."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.huggingface.mxfp4 import Mxfp4Rows
from p2pmoe.weights.huggingface.rows import Items, Stored

VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
VALUES += [-value for value in VALUES]


def published_floats(blocks: Items, scales: Items) -> Items:
    """Decode [rows, n_blocks, 16] and [rows, n_blocks] as the model card says."""
    table = np.array(VALUES, np.float32)
    low, high = table[blocks & 15], table[blocks >> 4]
    values = np.stack([low, high], axis=-1).reshape(*scales.shape, 32)
    values = np.ldexp(values, scales.astype(np.int32)[..., None] - 127)
    return values.reshape(len(scales), -1)


def make(path: Path, blocks: Items, scales: Items) -> Mxfp4Rows:
    path.write_bytes(blocks.tobytes() + scales.tobytes())
    file, u8 = OpenFile(path), np.dtype(np.uint8)
    codes = Stored(file, 0, len(scales), scales.shape[1] * 16, u8)
    grid = Stored(file, blocks.nbytes, *scales.shape, u8)
    return Mxfp4Rows(path, "w", codes, grid)


def test_the_repacked_blocks_hold_the_same_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    blocks = rng.integers(0, 256, (7, 3, 16)).astype(np.uint8)
    scales = rng.integers(100, 140, (7, 3)).astype(np.uint8)
    rows = make(tmp_path / "data", blocks, scales)
    assert (rows.n_rows, rows.n_items) == (7, 51)
    out = np.empty((5, 51), np.uint8)
    rows.fill(2, out)
    floats = gguf.quants.dequantize(out, gguf.GGMLQuantizationType.MXFP4)
    assert (floats == published_floats(blocks, scales)[2:]).all()


def test_the_bytes_of_one_block(tmp_path: Path) -> None:
    """Byte i holds values 2i (low) and 2i + 1; repacked, values i and i + 16."""
    values = [n % 16 for n in range(16)] + [(n * 3 + 1) % 16 for n in range(16)]
    pairs = zip(values[::2], values[1::2], strict=True)
    blocks = np.array([[[low | high << 4 for low, high in pairs]]], np.uint8)
    rows = make(tmp_path / "data", blocks, np.array([[130]], np.uint8))
    out = np.empty((1, 17), np.uint8)
    rows.fill(0, out)
    halves = zip(values[:16], values[16:], strict=True)
    assert out[0].tolist() == [130, *(low | high << 4 for low, high in halves)]


def test_a_scale_that_is_no_number_is_refused(tmp_path: Path) -> None:
    blocks, scales = np.zeros((2, 1, 16), np.uint8), np.array([[1], [255]], np.uint8)
    rows = make(tmp_path / "data", blocks, scales)
    rows.fill(0, np.empty((1, 17), np.uint8))
    with pytest.raises(ModelFileError, match="tensor 'w': a scale is not finite"):
        rows.fill(1, np.empty((1, 17), np.uint8))
