"""Each stored tensor is used once; nothing is dropped silently."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.quantization import Quantization, QuantizationMethod
from p2pmoe.weights.huggingface.safetensors import read_safetensors
from p2pmoe.weights.huggingface.stored_views import PlacedTensor
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from tests.support.safetensors_folder import (
    SafeTensor,
    f32,
    safetensors_bytes,
    u8,
)

Make = Callable[..., TensorTable]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(
        method: QuantizationMethod = QuantizationMethod.NONE, **tensors: SafeTensor
    ) -> TensorTable:
        stored = {name.replace("__", "."): one for name, one in tensors.items()}
        path = tmp_path / "model.safetensors"
        path.write_bytes(safetensors_bytes(stored))
        file = OpenFile(path)
        placed = {
            name: PlacedTensor(file, tensor)
            for name, tensor in read_safetensors(file).tensors.items()
        }
        return TensorTable(tmp_path, placed, Quantization(method=method))

    return build


def test_a_tensor_is_taken_once(make: Make) -> None:
    table = make(a__weight=f32([[1.0]]))
    assert table.has("a.weight")
    table.copy("output.weight", "a.weight")
    assert table.tensors["output.weight"].shape == (1, 1)
    assert table.has("a.weight")
    with pytest.raises(ModelFileError, match=r"tensor 'a.weight': is used twice"):
        table.view("a.weight", "x.weight")
    with pytest.raises(ModelFileError, match=r"tensor 'b.weight': is missing"):
        table.view("b.weight", "x.weight")
    assert table.last == "b.weight"
    table.finish("olmoe")


def test_what_nobody_took_is_refused_and_listed(make: Make) -> None:
    table = make(**{f"x{n}": f32([1.0]) for n in range(12)})
    with pytest.raises(
        UnsupportedModel, match=r"12 tensors have no place in olmoe: x0"
    ):
        table.finish("olmoe")
    table.set_aside(r"x\d")
    with pytest.raises(UnsupportedModel, match=r"2 tensors have no place .*: x10, x11"):
        table.finish("olmoe")


def test_what_is_no_weight_may_be_left(make: Make) -> None:
    names = ("rotary_emb__inv_freq", "q_proj__input_scale", "q_proj__k_scale")
    names += ("gate__activation_scale", "experts__down_proj_activation_scale")
    table = make(**{f"model__{name}": f32([1.0]) for name in names})
    table.finish("olmoe")
    with pytest.raises(UnsupportedModel, match="1 tensors have no place"):
        make(model__q_proj__weight_scale=f32([1.0])).finish("olmoe")


def test_a_text_part_within_a_model_with_pictures(make: Make) -> None:
    for name in ("language_model__model__norm", "model__language_model__norm"):
        assert make(**{name: f32([1.0])}).has("model.norm")
    assert make(language_model__lm_head__weight=f32([1.0])).has("lm_head.weight")
    with pytest.raises(ModelFileError, match=r"and 'model.norm' are one"):
        make(model__norm=f32([1.0]), language_model__model__norm=f32([1.0]))


def test_the_first_name_that_exists(make: Make) -> None:
    table = make(b=f32([1.0]), c=f32([1.0]))
    assert table.first_of("a", "b", "c") == "b"
    assert table.first_of("x", "y") == "x"


@pytest.mark.parametrize("suffix", ["_scale_inv", "_scale"])
def test_fp8_takes_its_scale_along(suffix: str, make: Make) -> None:
    tensors = {"a__weight": u8([[56]], "F8_E4M3"), f"a__weight{suffix}": f32([[2.0]])}
    table = make(QuantizationMethod.FP8, **tensors)
    assert table.view("a.weight", "output.weight").format is Format.BF16
    table.finish("olmoe")
    alone = make(QuantizationMethod.FP8, a__weight=u8([[56]], "F8_E4M3"))
    with pytest.raises(ModelFileError, match="has no scale beside it"):
        alone.view("a.weight", "output.weight")


def blocks(*shape: int) -> SafeTensor:
    size = 1
    for part in shape:
        size *= part
    return SafeTensor("U8", shape, bytes(size))


def test_mxfp4_takes_blocks_and_scales(make: Make) -> None:
    parts = {"w_blocks": blocks(3, 4, 2, 16), "w_scales": blocks(3, 4, 2)}
    table = make(QuantizationMethod.MXFP4, **parts)
    view = table.mxfp4("w")
    assert (view.format, view.shape) == (Format.MXFP4, (3, 4, 64))
    table.finish("gpt-oss")
    with pytest.raises(UnsupportedModel, match="does not explain"):
        make(**parts).mxfp4("w")


@pytest.mark.parametrize(
    ("codes", "scales"),
    [
        (blocks(3, 4, 2, 16), blocks(3, 4)),
        (blocks(3, 4, 2, 8), blocks(3, 4, 2)),
        (blocks(2, 16), blocks(2)),
        (f32([[[1.0] * 16]]), blocks(1, 1)),
    ],
)
def test_mxfp4_of_other_shapes_is_refused(
    codes: SafeTensor, scales: SafeTensor, make: Make
) -> None:
    table = make(QuantizationMethod.MXFP4, w_blocks=codes, w_scales=scales)
    with pytest.raises(ModelFileError, match="no blocks of 16 bytes"):
        table.mxfp4("w")
