"""How a folder's weights are coded: what its quantization_config says.

FP8 with scales apart (`quant_method` "fp8") and gpt-oss's MXFP4 ("mxfp4") are read; any
other method is refused by its name, before a tensor is looked at.
"""

from dataclasses import dataclass
from enum import Enum, unique

from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.huggingface.config import Config

__all__ = ["Quantization", "QuantizationMethod", "read_quantization"]

_MAX_BLOCK = 1 << 16
_ADVICE = "use the publisher's BF16, FP8 or MXFP4 folder, or a GGUF file of the model"


@unique
class QuantizationMethod(Enum):
    """How weights are coded; the value is the `quant_method` of config.json."""

    NONE = ""
    FP8 = "fp8"
    MXFP4 = "mxfp4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """`block` is the (rows, columns) that one FP8 scale covers; None: the scales say.

    `has_byte_scales` if scales stored as U8 are exponents (E8M0).
    """

    method: QuantizationMethod
    block: tuple[int, int] | None = None
    has_byte_scales: bool = False


def read_quantization(config: Config) -> Quantization:
    """Return the coding that the configuration states.

    Raises:
        UnsupportedModel: a method that is not read here.
        ModelFileError: a value of another type or out of bounds.
    """
    if "quantization_config" not in config:
        return Quantization(method=QuantizationMethod.NONE)
    section = config.section("quantization_config")
    name = section.text("quant_method")
    if name == QuantizationMethod.MXFP4.value:
        return Quantization(method=QuantizationMethod.MXFP4)
    if name != QuantizationMethod.FP8.value:
        reason = f"weights coded by {name[:40]!r} are not read here"
        field = "key 'quant_method'"
        raise UnsupportedModel(config.path, reason, field=field, advice=_ADVICE)
    section.must_be("fmt", "e4m3", "float8_e4m3fn", "e5m2")
    section.must_be("scale_fmt", "float", "ue8m0")
    block = None
    if "weight_block_size" in section:
        sizes = section.integers("weight_block_size")
        if len(sizes) != 2 or not all(1 <= size <= _MAX_BLOCK for size in sizes):
            raise section.wrong("weight_block_size", f"{list(sizes)[:4]} are no sizes")
        block = (sizes[0], sizes[1])
    return Quantization(
        method=QuantizationMethod.FP8,
        block=block,
        has_byte_scales=section.text("scale_fmt", "float") == "ue8m0",
    )
