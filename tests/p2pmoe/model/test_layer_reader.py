from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.layer_reader import LayerReader
from p2pmoe.model.model import describe_model
from p2pmoe.model.row_operations import NUMPY_OPERATIONS
from p2pmoe.model.settings import HeadSettings
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.gguf_writer import TensorBytes
from tests.support.mini_models import matrix, write_mini

HEADS = HeadSettings(n_heads=4, n_kv_heads=2, head_dim=32)
RULE = RouterSettings(
    score_function=ScoreFunction.SOFTMAX, top_k=2, norm=True, scale=1.0
)
X = fixed_rows("x", 3, 64)


def reader_of(model_file: ModelFile, number: int = 1) -> LayerReader:
    return LayerReader(
        file=model_file,
        kernel=NumpyKernel(),
        operations=NUMPY_OPERATIONS,
        description=describe_model(model_file),
        eps=np.float32(1e-6),
        number=number,
    )


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[LayerReader]:
    with open_model(write_mini(tmp_path / "m.gguf", "glm4moe")) as model_file:
        yield reader_of(model_file)


def test_parts_have_the_layers_names(reader: LayerReader) -> None:
    assert reader.name("attn_q") == "blk.1.attn_q.weight"
    assert reader.name("attn_q", "bias") == "blk.1.attn_q.bias"
    assert reader.has("exp_probs_b", "bias")
    assert not reader.has("attn_sinks")


def test_matrices_that_share_an_input_are_one_product(reader: LayerReader) -> None:
    product = reader.qkv(HEADS, biased=True)(X)
    assert product.shape == (3, 256)
    plain = reader.qkv(HEADS)(X)
    sizes = {"attn_q": 128, "attn_k": 64, "attn_v": 64}
    biases = [reader.vector(part, n, "bias") for part, n in sizes.items()]
    assert np.array_equal(product, plain + np.concatenate(biases))
    assert reader.attention_output(HEADS)(fixed_rows("h", 2, 128)).shape == (2, 64)


def test_norms_of_heads_and_of_rows(reader: LayerReader) -> None:
    weight = reader.head_norm(HEADS).weight
    assert weight.shape == (6, 32)
    assert np.array_equal(weight[3], reader.norm("attn_q_norm", 32))
    assert np.array_equal(weight[4], reader.norm("attn_k_norm", 32))
    with pytest.raises(ModelRefused, match=r"blk\.1\.attn_q_norm\.weight .* 128"):
        reader.row_norm(HEADS)


def test_a_dense_layer_has_no_router(reader: LayerReader) -> None:
    assert reader.router(RULE) is not None
    assert reader_of(reader.file, 0).router(RULE) is None
    assert reader_of(reader.file, 0).dense()(X).shape == (3, 64)
    assert reader.shared_expert()(X).shape == (3, 64)


@pytest.mark.parametrize("block_format", [Format.F16, Format.BF16, Format.Q8_0])
def test_a_routers_weights_are_f32_whatever_the_file_keeps(
    tmp_path: Path, block_format: Format
) -> None:
    name = "blk.0.ffn_gate_inp.weight"
    tensor = matrix(name, 4, 64, block_format=block_format)
    path = write_mini(tmp_path / "m.gguf", "olmoe", None, {name: tensor})
    with open_model(path) as model_file:
        router = reader_of(model_file, 0).router(RULE)
    values = dequantize(fixed_matrix(name, block_format, 4, 64)).astype(np.float32)
    expected = NUMPY_OPERATIONS.lane_product(values)(X)
    experts, weights = NUMPY_OPERATIONS.choose(expected, None, RULE)
    assert router is not None
    assert np.array_equal(router.route(X).experts, experts)
    assert np.array_equal(router.route(X).weights, weights)


def test_every_tensor_has_to_be_read(reader: LayerReader) -> None:
    for part in ("attn_norm", "post_attention_norm"):
        reader.norm(part)
    reader.qkv(HEADS, biased=True)
    reader.attention_output(HEADS)
    reader.head_norm(HEADS)
    reader.router(RULE)
    with pytest.raises(ModelRefused, match=r"ffn_\w+_shexp\.weight has no place"):
        reader.refuse_unread()
    reader.shared_expert()
    reader.refuse_unread()  # experts are read by whoever serves them


@pytest.mark.parametrize(
    ("name", "value", "is_refused"),
    [
        ("blk.1.attn_output.bias", 0.5, True),
        ("blk.1.attn_output.bias", 0.0, False),
        ("blk.1.attn_q.scale", 0.5, True),
        ("blk.1.attn_q.scale", 1.0, False),
        ("blk.1.attn_q.input_scale", 0.5, False),
        ("blk.1.ffn_gate_exps.input_scale", 0.5, False),
        ("blk.1.ffn_gate_exps.scale", 0.5, True),
        ("blk.1.ffn_norm_exps.weight", 1.0, True),
        ("blk.1.attn_rot_embd.weight", 0.5, False),
        ("blk.12.attn_q.scale", 0.5, False),
    ],
)
def test_what_has_no_place_in_a_layer(
    tmp_path: Path, name: str, value: float, is_refused: bool
) -> None:
    content = np.full(64, value, "<f4").tobytes()
    tensors = {name: TensorBytes(name=name, type=0, shape=(64,), content=content)}
    path = write_mini(tmp_path / "m.gguf", "qwen3moe", None, tensors)
    with open_model(path) as model_file:
        own = reader_of(model_file)
        for part in ("attn_norm", "ffn_norm"):
            own.norm(part)
        own.qkv(HEADS)
        own.attention_output(HEADS)
        own.head_norm(HEADS)
        own.router(RULE)
        if not is_refused:
            own.refuse_unread()
            return
        with pytest.raises(ModelRefused, match=f"{name} has no place in qwen3moe"):
            own.refuse_unread()


def read_all(own: LayerReader) -> None:
    own.qkv(HEADS)
    if own.router(RULE) is None:
        own.dense()
    else:
        own.shared_expert()


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        ("blk.0.ffn_gate.weight", (32, 32), "takes 32 values"),
        ("blk.0.ffn_up.weight", (16, 64), r"is \[16, 64\]"),
        ("blk.1.ffn_down_shexp.weight", (32, 32), r"is \[32, 32\]"),
        ("blk.1.ffn_gate_inp.weight", (5, 64), r"is \[5, 64\]"),
        ("blk.0.attn_k.weight", (64, 32), r"is \[64, 32\]"),
    ],
)
def test_a_part_of_another_shape_is_named(
    tmp_path: Path, name: str, shape: tuple[int, int], reason: str
) -> None:
    tensors = {name: matrix(name, *shape)}
    path = write_mini(tmp_path / "m.gguf", "glm4moe", None, tensors)
    with open_model(path) as model_file:
        own = reader_of(model_file, int(name[4]))
        with pytest.raises(ModelRefused, match=f"tensor {name} {reason}"):
            read_all(own)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = write_mini(tmp_path / "m.gguf", "olmoe", None, {"blk.1.attn_v.weight": None})
    with open_model(path) as model_file:
        with pytest.raises(ModelFileError, match=r"blk\.1\.attn_v\.weight"):
            reader_of(model_file).qkv(HEADS)


def test_b12_all_layers_have_a_selection_bias_or_none_has(tmp_path: Path) -> None:
    names = [f"blk.{layer}.exp_probs_b.bias" for layer in (0, 1)]
    path = write_mini(tmp_path / "m.gguf", "minimax-m2", None, {names[1]: None})
    with open_model(path) as model_file:
        reader_of(model_file, 0).router(RULE)
        with pytest.raises(ModelFileError, match=r"blk\.1\.exp_probs_b\.bias"):
            reader_of(model_file, 1).router(RULE)
    path = write_mini(tmp_path / "n.gguf", "minimax-m2", None, dict.fromkeys(names))
    with open_model(path) as model_file:
        assert reader_of(model_file, 1).router(RULE) is not None
