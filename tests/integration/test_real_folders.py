"""Folders as hubs publish them, of each family, load and are what GGUF would be."""

import json
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.inspect.inventory import take_inventory
from p2pmoe.inspect.obstacles import judge
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import load_model
from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.loading import load_vocabulary
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.model_file import open_model, read_header
from tests.support.kernels import fastest_kernel
from tests.support.real_configs import CONFIGS
from tests.support.real_folders import as_hub_cache, beside, published_folder
from tests.support.real_tokenizers import published_tokenizer
from tests.support.safetensors_folder import Published, SafeTensor, bf16, f32

PROMPT = [1, 2, 35, 4, 70, 6, 7, 200]
KINDS = {
    "Mixtral": "mixtral",
    "Qwen": "qwen",
    "OLMoE": "olmo",
    "DeepSeek": "deepseek",
    "GLM": "glm",
    "gpt-oss": "gpt-oss",
    "MiniMax": "gpt-oss",
}


def kind_of(name: str) -> str | None:
    return next((kind for start, kind in KINDS.items() if name.startswith(start)), None)


def written(name: str, folder: Path) -> Path:
    """Write a model with all that lies beside it, laid out as a hub's cache."""
    path = published_folder(name).write(folder / "model", n_files=2)
    index = path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["metadata"] = {"total_size": 688586727753, "total_parameters": 1}
    index.write_text(json.dumps(content))
    beside(path)
    kind = kind_of(name)
    if kind is not None:
        document, config = published_tokenizer(kind)
        (path / "tokenizer.json").write_text(json.dumps(document))
        (path / "tokenizer_config.json").write_text(json.dumps(config))
    return as_hub_cache(path, folder / "cache")


def logits_of(path: Path) -> np.ndarray:
    with open_model(path) as model_file:
        model = load_model(model_file, fastest_kernel())
        experts = LocalExperts.load(model_file, fastest_kernel(), Profile.R32)
        return model.forward(PROMPT, model.new_cache(len(PROMPT)), experts)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_folder_runs_and_inspect_says_so(name: str, tmp_path: Path) -> None:
    path = written(name, tmp_path)
    header = read_header(path)
    obstacles = judge(header, take_inventory(header)).obstacles
    assert obstacles == (() if kind_of(name) else ("there is no tokenizer.json",))
    logits = logits_of(path)
    assert np.isfinite(logits).all()
    assert np.ptp(logits) > 1


@pytest.mark.parametrize("name", [name for name in CONFIGS if kind_of(name)])
def test_its_tokenizer_gives_a_text_back(name: str, tmp_path: Path) -> None:
    vocabulary = load_vocabulary(read_header(written(name, tmp_path)))
    tokenizer = Tokenizer(vocabulary)
    ids = tokenizer.encode("hello world 333", bos=vocabulary.add_bos)
    assert tokenizer.decode(ids).strip() == b"hello world 333"
    assert vocabulary.add_bos is (kind_of(name) in {"mixtral", "deepseek"})
    assert len(vocabulary.texts) == CONFIGS[name]["vocab_size"]
    assert vocabulary.eos_id in vocabulary.stop_ids


def test_a_folder_of_kimi_k2_has_no_tokenizer_that_is_read(tmp_path: Path) -> None:
    """It is published with a tiktoken.model and Python code."""
    with pytest.raises(TokenizerError, match=r"no tokenizer\.json") as caught:
        load_vocabulary(read_header(written("Kimi-K2-Instruct", tmp_path)))
    assert "GGUF" in str(caught.value.advice)


@pytest.mark.parametrize("name", ["Qwen3-30B-A3B-Instruct-2507-FP8", "DeepSeek-V3"])
def test_fp8_is_the_product_of_codes_and_scales(name: str, tmp_path: Path) -> None:
    """A folder of those products in BF16 gives the same bytes, all over."""
    folder = published_folder(name)
    assert any(tensor.dtype == "F8_E4M3" for tensor in folder.tensors.values())
    with open_model(folder.write(tmp_path / "fp8")) as coded:
        views = {name: coded.read(name) for name in coded.tensors}
    plain = _multiplied(folder).write(tmp_path / "plain")
    with open_model(plain) as model_file:
        assert model_file.tensors.keys() == views.keys()
        for tensor, raw in views.items():
            assert model_file.read(tensor) == raw, tensor


def _multiplied(folder: Published) -> Published:
    """Return the model with FP8 as F32 rounded to BF16, worked out number by number."""
    table = np.zeros(256, np.float32)
    for code in range(256):
        exponent, fraction = code >> 3 & 15, code & 7
        value = (1 + fraction / 8) * 2.0 ** (exponent - 7) if exponent else 0
        value = value or fraction / 8 * 2.0**-6
        table[code] = -value if code & 128 else value
    tensors = {}
    for name, tensor in folder.tensors.items():
        if name.endswith("_scale_inv"):
            continue
        scale = folder.tensors.get(f"{name}_scale_inv")
        if scale is None:
            tensors[name] = tensor
            continue
        codes = np.frombuffer(tensor.content, np.uint8).reshape(tensor.shape)
        if scale.dtype == "BF16":
            bits = np.frombuffer(scale.content, "<u2").astype(np.uint32) << 16
            grid = bits.view(np.float32).reshape(scale.shape)
        else:
            grid = scale.floats
        wide = np.repeat(np.repeat(grid, 128, 0), 128, 1)
        product = table[codes] * wide[: codes.shape[0], : codes.shape[1]]
        tensors[name] = _rounded(product)
    return Published({**folder.config, "quantization_config": None}, tensors)


def _rounded(values: np.ndarray) -> SafeTensor:
    bits = np.asarray(values, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return bf16(bits)


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("compressed-tensors", {"format": "pack-quantized"}),  # Kimi-K2-Thinking
        ("compressed-tensors", {"format": "float-quantized"}),  # GLM-4.5-FP8
        ("awq", {"bits": 4}),
        ("gptq", {"bits": 4}),
        ("bitsandbytes", {"load_in_4bit": True}),
        ("modelopt", {"quant_algo": "NVFP4"}),
    ],
)
def test_other_codings_are_refused_by_name(
    method: str, more: dict[str, object], tmp_path: Path
) -> None:
    folder = published_folder("GLM-4.5-Air")
    folder.config["quantization_config"] = {"quant_method": method, **more}
    with pytest.raises(UnsupportedModel, match=f"coded by '{method}'") as caught:
        open_model(folder.write(tmp_path / "model"))
    assert "GGUF" in str(caught.value.advice)


@pytest.mark.parametrize(
    "architecture",
    [
        "DeepseekV32ForCausalLM",
        "KimiK25ForConditionalGeneration",
        "Qwen3NextForCausalLM",
    ],
)
def test_the_next_generation_is_refused_by_name(
    architecture: str, tmp_path: Path
) -> None:
    folder = published_folder("DeepSeek-V3")
    folder.config["architectures"] = [architecture]
    with pytest.raises(UnsupportedModel, match=architecture):
        open_model(folder.write(tmp_path / "model"))


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.layers.1.self_attn.k_scale",
        "model.layers.1.mlp.experts.0.up_proj.input_scale",
    ],
)
def test_what_training_left_is_passed_over(name: str, tmp_path: Path) -> None:
    folder = published_folder("Qwen3-30B-A3B")
    plain = logits_of(folder.write(tmp_path / "plain"))
    folder.tensors[name] = f32(np.ones(8))
    assert np.array_equal(plain, logits_of(folder.write(tmp_path / "more")))


def test_a_tensor_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = published_folder("Qwen3-30B-A3B")
    folder.tensors["model.layers.0.self_attn.sinks"] = f32(np.ones(4))
    with pytest.raises(ModelFileError, match="sinks"):
        open_model(folder.write(tmp_path / "model"))


def test_a_folder_that_only_has_the_other_layout_says_so(tmp_path: Path) -> None:
    folder = published_folder("Mixtral-8x7B-Instruct-v0.1").write(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "consolidated.safetensors")
    with pytest.raises(ModelFileError, match=r"has neither model\.safetensors nor"):
        open_model(folder)


def test_a_rope_that_was_trained_on_is_no_other(tmp_path: Path) -> None:
    folder = published_folder("Qwen3-235B-A22B-yarn")
    plain = logits_of(folder.write(tmp_path / "plain"))
    folder.config["rope_scaling"]["finetuned"] = True
    assert np.array_equal(plain, logits_of(folder.write(tmp_path / "more")))


def test_minimax_m2_may_give_a_share_of_a_head(tmp_path: Path) -> None:
    """transformers 5 writes it beside `rotary_dim`, or in its place."""
    folder = published_folder("MiniMax-M2")
    plain = logits_of(folder.write(tmp_path / "plain"))
    rope = {"rope_theta": 5000000, "rope_type": "default", "partial_rotary_factor": 0.5}
    folder.config["rope_parameters"] = rope
    assert np.array_equal(plain, logits_of(folder.write(tmp_path / "both")))
    del folder.config["rotary_dim"]
    assert np.array_equal(plain, logits_of(folder.write(tmp_path / "one")))
    folder.config["rotary_dim"] = 16
    with pytest.raises(UnsupportedModel, match="rotary_dim"):
        open_model(folder.write(tmp_path / "contrary"))
