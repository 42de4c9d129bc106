"""Block formats of weights by their ggml number, with the size of a block.

A row of `n_cols` values is `n_cols / values` blocks of so many bytes; rows follow each
other without padding. All types of the GGUF file format (ggml_type) are listed: that
says how long rows are, not that they can be computed with (see
`mobile_worker.arithmetic.formats.codecs`). No numpy here: whoever reads files or
manifests needs the sizes alone.

Source: the GGUF format document and ggml's type table.
"""

from enum import IntEnum, unique

from mobile_worker.arithmetic.errors import MatrixMalformed

__all__ = ["Format", "block_size", "row_bytes"]


@unique
class Format(IntEnum):
    """A block format; the value is its ggml number, in files and manifests."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41


# Format -> (values in a block, bytes of a block)
_BLOCKS: dict[Format, tuple[int, int]] = {
    Format.F32: (1, 4),
    Format.F16: (1, 2),
    Format.Q4_0: (32, 18),
    Format.Q4_1: (32, 20),
    Format.Q5_0: (32, 22),
    Format.Q5_1: (32, 24),
    Format.Q8_0: (32, 34),
    Format.Q8_1: (32, 40),
    Format.Q2_K: (256, 84),
    Format.Q3_K: (256, 110),
    Format.Q4_K: (256, 144),
    Format.Q5_K: (256, 176),
    Format.Q6_K: (256, 210),
    Format.Q8_K: (256, 292),
    Format.IQ2_XXS: (256, 66),
    Format.IQ2_XS: (256, 74),
    Format.IQ3_XXS: (256, 98),
    Format.IQ1_S: (256, 50),
    Format.IQ4_NL: (32, 18),
    Format.IQ3_S: (256, 110),
    Format.IQ2_S: (256, 82),
    Format.IQ4_XS: (256, 136),
    Format.I8: (1, 1),
    Format.I16: (1, 2),
    Format.I32: (1, 4),
    Format.I64: (1, 8),
    Format.F64: (1, 8),
    Format.IQ1_M: (256, 56),
    Format.BF16: (1, 2),
    Format.TQ1_0: (256, 54),
    Format.TQ2_0: (256, 66),
    Format.MXFP4: (32, 17),
    Format.NVFP4: (64, 36),
    Format.Q1_0: (128, 18),
}


def block_size(block_format: Format) -> tuple[int, int]:
    """Return (values in a block, bytes of a block)."""
    return _BLOCKS[block_format]


def row_bytes(block_format: Format, n_cols: int) -> int:
    """Return the bytes of one row; MatrixMalformed if it ends within a block."""
    n_values, n_bytes = _BLOCKS[block_format]
    if n_cols <= 0 or n_cols % n_values:
        raise MatrixMalformed(
            f"a row of {n_cols} values is not a whole number of {block_format.name} "
            f"blocks of {n_values}"
        )
    return n_cols // n_values * n_bytes
