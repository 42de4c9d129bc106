"""Block formats of weights by their ggml number, with the size of a block.

A row of `n_cols` values is `n_cols / block_values` blocks of `block_bytes` bytes; rows
follow each other without padding. The numbers and sizes are those of the GGUF file
format (ggml_type). That a format is listed here says how long its rows are, not that
it can be computed with: see `mobile_worker.arithmetic.formats.codecs`.
"""

from enum import IntEnum, unique

from mobile_worker.arithmetic.errors import MatrixMalformed

__all__ = ["Format", "block_bytes", "block_values", "row_bytes"]


@unique
class Format(IntEnum):
    """A block format; the value is its ggml number."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    IQ4_NL = 20
    IQ4_XS = 23
    BF16 = 30
    MXFP4 = 39


# Format -> (values in a block, bytes of a block)
_SIZES: dict[Format, tuple[int, int]] = {
    Format.F32: (1, 4),
    Format.F16: (1, 2),
    Format.BF16: (1, 2),
    Format.Q4_0: (32, 18),
    Format.Q4_1: (32, 20),
    Format.Q5_0: (32, 22),
    Format.Q5_1: (32, 24),
    Format.Q8_0: (32, 34),
    Format.Q2_K: (256, 84),
    Format.Q3_K: (256, 110),
    Format.Q4_K: (256, 144),
    Format.Q5_K: (256, 176),
    Format.Q6_K: (256, 210),
    Format.IQ4_NL: (32, 18),
    Format.IQ4_XS: (256, 136),
    Format.MXFP4: (32, 17),
}


def block_values(block_format: Format) -> int:
    """Return how many values one block of the format holds."""
    return _SIZES[block_format][0]


def block_bytes(block_format: Format) -> int:
    """Return how many bytes one block of the format takes."""
    return _SIZES[block_format][1]


def row_bytes(block_format: Format, n_cols: int) -> int:
    """Return the bytes of one row; MatrixMalformed if it ends within a block."""
    n_values, n_bytes = _SIZES[block_format]
    if n_cols <= 0 or n_cols % n_values:
        raise MatrixMalformed(
            f"a row of {n_cols} values is not a whole number of {block_format.name} "
            f"blocks of {n_values}"
        )
    return n_cols // n_values * n_bytes
