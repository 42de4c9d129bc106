"""Numbers to blocks of a format, and back: the `gguf` package's quantisers.

They are those of llama.cpp's own converter and give the same bytes. Formats that this
package reads and does not write (the K and I ones need a search that it does not have)
are refused by name. Numbers that are not finite, or become so in a narrow format, are
refused: they would poison every answer and show only there.
"""

from typing import Final

import gguf
import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.convert.errors import ConversionFailed, FormatNotWritable

__all__ = ["WRITABLE", "decode", "encode", "writable_format"]

WRITABLE: Final = (
    Format.F32,
    Format.F16,
    Format.BF16,
    Format.Q8_0,
    Format.Q5_1,
    Format.Q5_0,
    Format.Q4_1,
    Format.Q4_0,
    Format.MXFP4,
)


def writable_format(name: str) -> Format:
    """Return the format of a name such as Q4_0, in any case.

    Raises:
        FormatNotWritable: there is none of this name, or it cannot be written.
    """
    known = ", ".join(each.name for each in WRITABLE)
    advice = f"choose of {known}, or keep"
    wanted = name.strip().upper()
    if wanted not in Format.__members__:
        raise FormatNotWritable(f"{name!r} is no format", advice=advice)
    if Format[wanted] not in WRITABLE:
        reason = f"format {wanted} cannot be written here"
        raise FormatNotWritable(reason, advice=advice)
    return Format[wanted]


def decode(raw: bytes, block_format: Format, name: str) -> Floats:
    """Return whole blocks as numbers, f32 [n]; `name` is for messages.

    Raises:
        ConversionFailed: the format has no numbers, or one of them is not finite.
    """
    blocks = np.frombuffer(raw, np.uint8)
    try:
        with np.errstate(all="ignore"):
            values = gguf.quants.dequantize(blocks, _type(block_format))
    except (NotImplementedError, ValueError) as exc:
        raise ConversionFailed(
            f"tensor {name!r}: {block_format.name} cannot be read as numbers"
        ) from exc
    if not np.isfinite(values).all():
        raise ConversionFailed(f"tensor {name!r} holds a value that is not finite")
    return np.asarray(values, np.float32).reshape(-1)


def encode(values: Floats, block_format: Format, name: str) -> bytes:
    """Return finite numbers, f32 [n], as whole blocks; `name` is for messages.

    Raises:
        ConversionFailed: a number becomes infinite in the format.
    """
    with np.errstate(all="ignore"):
        if block_format is Format.F32:
            return values.astype("<f4").tobytes()
        blocks = gguf.quants.quantize(values, _type(block_format))
        if block_format is Format.F16:
            _check(np.isfinite(blocks).all(), block_format, values, name)
            return blocks.astype("<f2").tobytes()
    if block_format in _WITH_HALF_SCALES:
        n_blocks = values.size // 32
        scales = blocks.reshape(n_blocks, -1)[:, : _WITH_HALF_SCALES[block_format]]
        halves = np.ascontiguousarray(scales).view("<f2")
        _check(np.isfinite(halves).all(), block_format, values, name)
    return np.ascontiguousarray(blocks).tobytes()


# Formats whose blocks begin with f16 scales and minima, and how many bytes these take.
_WITH_HALF_SCALES: Final = {
    Format.Q8_0: 2,
    Format.Q5_1: 4,
    Format.Q5_0: 2,
    Format.Q4_1: 4,
    Format.Q4_0: 2,
}


def _check(finite: np.bool_, block_format: Format, values: Floats, name: str) -> None:
    if not finite:
        largest = float(np.abs(values).max())
        raise ConversionFailed(
            f"tensor {name!r}: {largest:g} is too large for {block_format.name}"
        )


def _type(block_format: Format) -> gguf.GGMLQuantizationType:
    return gguf.GGMLQuantizationType(int(block_format))
