"""What quantization_config says; methods that are not read are refused by name."""

from pathlib import Path
from typing import Any

import pytest

from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.quantization import (
    Quantization,
    QuantizationMethod,
    read_quantization,
)


def read(section: Any) -> Quantization:
    return read_quantization(
        Config(Path("config.json"), {"quantization_config": section})
    )


def test_none() -> None:
    assert read(None) == Quantization(method=QuantizationMethod.NONE)


def test_fp8_as_deepseek_and_minimax_publish_it() -> None:
    section = {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": ["gate", "lm_head"],
    }
    assert read(section) == Quantization(
        method=QuantizationMethod.FP8, block=(128, 128)
    )


def test_byte_scales_and_whole_matrices() -> None:
    found = read({"quant_method": "fp8", "scale_fmt": "ue8m0"})
    assert found == Quantization(method=QuantizationMethod.FP8, has_byte_scales=True)


def test_mxfp4() -> None:
    assert read({"quant_method": "mxfp4"}).method is QuantizationMethod.MXFP4


@pytest.mark.parametrize(
    "method",
    ["awq", "gptq", "compressed-tensors", "bitsandbytes", "mxfp8", "modelopt", "hqq"],
)
def test_other_methods_are_refused_by_name_with_advice(method: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"coded by '{method}'") as caught:
        read({"quant_method": method})
    assert "GGUF" in caught.value.advice


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"quant_method": 8},
        {"quant_method": "fp8", "weight_block_size": [128]},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        {"quant_method": "fp8", "weight_block_size": 128},
        {"quant_method": "fp8", "weight_block_size": [128.0, 128]},
        {"quant_method": "fp8", "fmt": "e3m4"},
        "fp8",
    ],
)
def test_a_malformed_section_is_refused(section: Any) -> None:
    with pytest.raises(ModelFileError):
        read(section)
