"""gpt-oss: turned and alternating experts, in floats and as published in MXFP4."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.translate import gpt_oss
from p2pmoe.weights.model_file import open_model, read_header
from tests.support.safetensors_folder import Published, published, u8

VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
TABLE = np.array(VALUES + [-value for value in VALUES], np.float32)


def as_published() -> Published:
    """Return the tiny model with random MXFP4 experts, as the hub has them."""
    rng = np.random.default_rng(17)
    model = published("gpt_oss")
    model.config["quantization_config"] = {"quant_method": "mxfp4"}
    for layer in range(3):
        stem = f"model.layers.{layer}.mlp.experts"
        for word, n_rows, n_blocks in (("gate_up", 64, 2), ("down", 64, 1)):
            del model.tensors[f"{stem}.{word}_proj"]
            blocks = rng.integers(0, 256, (8, n_rows, n_blocks, 16))
            scales = rng.integers(110, 130, (8, n_rows, n_blocks))
            model.tensors[f"{stem}.{word}_proj_blocks"] = u8(blocks)
            model.tensors[f"{stem}.{word}_proj_scales"] = u8(scales)
    return model


def floats(model: Published, name: str) -> np.ndarray:
    """Decode the published form: two values a byte, the low one first."""
    blocks = model.tensors[f"{name}_blocks"]
    scales = model.tensors[f"{name}_scales"]
    codes = np.frombuffer(blocks.content, np.uint8).reshape(blocks.shape)
    powers = np.frombuffer(scales.content, np.uint8).reshape(scales.shape)
    values = np.stack([TABLE[codes & 15], TABLE[codes >> 4]], axis=-1)
    values = values.reshape(*powers.shape, 32)
    values = np.ldexp(values, powers.astype(np.int32)[..., None] - 127)
    return values.reshape(*powers.shape[:2], -1)


def test_mxfp4_is_repacked_exactly_and_rows_are_parted(tmp_path: Path) -> None:
    model = as_published()
    with open_model(model.write(tmp_path / "m")) as view:
        stem = "model.layers.1.mlp.experts"
        both = floats(model, f"{stem}.gate_up_proj")
        expected = {
            "gate": both[:, ::2],
            "up": both[:, 1::2],
            "down": floats(model, f"{stem}.down_proj"),
        }
        for word, values in expected.items():
            tensor = view.tensor(f"blk.1.ffn_{word}_exps.weight")
            assert tensor.format is Format.MXFP4
            assert tensor.shape == values.shape
            raw = np.frombuffer(view.read(tensor.name), np.uint8)
            rows = raw.reshape(*values.shape[:2], tensor.row_bytes)
            kind = gguf.GGMLQuantizationType.MXFP4
            assert (gguf.quants.dequantize(rows, kind) == values).all()


def test_mxfp4_without_its_configuration_is_refused(tmp_path: Path) -> None:
    model = as_published()
    del model.config["quantization_config"]
    with pytest.raises(UnsupportedModel, match="does not explain"):
        read_header(model.write(tmp_path / "m"))
    model = as_published()
    del model.tensors["model.layers.0.mlp.experts.down_proj_scales"]
    with pytest.raises(ModelFileError, match="down_proj_scales': is missing"):
        read_header(model.write(tmp_path / "m"))


def test_windows_of_another_pattern_are_a_key(tmp_path: Path) -> None:
    key = "gpt-oss.attention.sliding_window_pattern"
    model = published("gpt_oss")
    assert key not in read_header(model.write(tmp_path / "m")).metadata
    model.config["layer_types"] = ["full_attention"] * 2 + ["sliding_attention"]
    metadata = read_header(model.write(tmp_path / "m")).metadata
    assert metadata[key] == (False, False, True)
    for wrong in (["full_attention"], ["x"] * 3):
        model.config["layer_types"] = wrong
        with pytest.raises(ModelFileError, match="key 'layer_types'"):
            read_header(model.write(tmp_path / "m"))


@pytest.mark.parametrize(
    ("key", "value"), [("swiglu_limit", 5.0), ("swiglu_alpha", 1.0)]
)
def test_another_activation_is_refused(key: str, value: float, tmp_path: Path) -> None:
    model = published("gpt_oss")
    model.config[key] = value
    with pytest.raises(UnsupportedModel, match=f"key '{key}'"):
        read_header(model.write(tmp_path / "m"))
    assert gpt_oss.ARCHITECTURE == "gpt-oss"
