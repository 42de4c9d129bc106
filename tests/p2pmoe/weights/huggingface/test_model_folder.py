"""A folder is a GGUF model: the same names, shapes, bytes and keys, for every one."""

import contextlib
import json
import os
import re
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.errors import (
    ModelFileError,
    ModelFileTruncated,
    UnsupportedModel,
)
from p2pmoe.weights.huggingface.model_folder import open_folder, read_folder
from p2pmoe.weights.model_file import open_model, read_header
from tests.support.frontier_folder import write_deepseek_v3
from tests.support.safetensors_folder import (
    Published,
    SafeTensor,
    assert_same_model,
    bf16,
    f32,
    published,
    reference,
    u8,
)
from tests.support.shared import shared_path
from tests.support.tiny_folders import TINY_FOLDERS


@pytest.mark.parametrize("architecture", TINY_FOLDERS)
def test_the_view_equals_what_the_converter_wrote(architecture: str) -> None:
    assert_same_model(shared_path(f"models/tiny/{architecture}"), architecture)


@pytest.mark.parametrize("architecture", TINY_FOLDERS)
def test_a_bf16_folder_keeps_its_matrices_and_widens_the_rest(
    architecture: str, tmp_path: Path
) -> None:
    """What llama.cpp's converter writes in F32 whatever it was, and nothing else."""
    model = published(architecture)
    for name, tensor in model.tensors.items():
        bits = tensor.floats.view(np.uint32) >> 16
        model.tensors[name] = bf16(bits)
    kept = re.compile(r"(token_embd|output|blk\.\d+\.(attn|ffn)_\w+)\.weight")
    wide = re.compile(r".*(norm|sinks|ffn_gate_inp|ffn_gate_inp_shexp)\.weight")
    with (
        open_model(model.write(tmp_path / "m")) as view,
        reference(architecture) as f32s,
    ):
        for name, tensor in view.tensors.items():
            is_kept = kept.fullmatch(name) and not wide.fullmatch(name)
            assert tensor.format is (Format.BF16 if is_kept else Format.F32), name
            ours = np.frombuffer(view.read(name), np.uint16)
            theirs = np.frombuffer(f32s.read(name), np.uint16)[1::2]
            if is_kept:
                assert (ours == theirs).all(), name
            elif architecture != "minimax_m3":  # whose norms have one added
                assert (ours[1::2] == theirs).all(), name


def test_many_files_are_as_one(tmp_path: Path) -> None:
    assert_same_model(published("olmoe").write(tmp_path / "m", n_files=5), "olmoe")


def test_the_hubs_cache_is_opened_through_its_links(tmp_path: Path) -> None:
    blobs = tmp_path / "models--org--tiny" / "blobs"
    snapshot = tmp_path / "models--org--tiny" / "snapshots" / "0a1b"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    plain = published("olmoe").write(tmp_path / "m", n_files=3)
    for number, path in enumerate(sorted(plain.iterdir())):
        shutil.copy(path, blobs / f"{number:064x}")
        (snapshot / path.name).symlink_to(f"../../blobs/{number:064x}")
    assert_same_model(snapshot, "olmoe")


def test_any_file_of_the_folder_stands_for_it(tmp_path: Path) -> None:
    folder = published("olmoe").write(tmp_path / "m", n_files=2)
    for path in sorted(folder.iterdir()):
        with open_model(path) as model:
            assert model.folder == folder
            assert len(model.tensors) == 39


def test_the_fingerprint_follows_config_and_headers(tmp_path: Path) -> None:
    model = published("olmoe")
    folder = model.write(tmp_path / "m")
    first = read_header(folder).fingerprint()
    assert len(first) == 32
    assert read_header(folder).fingerprint() == first
    with open_model(folder) as opened:
        assert opened.fingerprint() == first
    model.config["extra"] = 1
    assert read_header(model.write(folder)).fingerprint() != first


def test_a_header_is_read_without_the_data(tmp_path: Path) -> None:
    folder = published("olmoe").write(tmp_path / "m", n_files=2)
    whole = read_header(folder)
    assert whole.n_bytes == whole.needed_bytes
    for path in folder.glob("*.safetensors"):
        length = int.from_bytes(path.read_bytes()[:8], "little")
        os.truncate(path, 8 + length)
    header = read_header(folder)
    assert header.tensors.keys() == whole.tensors.keys()
    assert header.n_bytes < header.needed_bytes == whole.needed_bytes
    with pytest.raises(ModelFileTruncated, match=r"needs .* bytes, has"):
        open_model(folder)


def test_an_index_that_promises_more_is_refused(tmp_path: Path) -> None:
    folder = published("olmoe").write(tmp_path / "m", n_files=2)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    name = next(iter(index["weight_map"].values()))
    index["weight_map"] |= {"model.more.weight": name, "model.most.weight": name}
    path.write_text(json.dumps(index))
    message = "2 tensors of the index are in no file: model.more.weight, model.most"
    with pytest.raises(ModelFileError, match=message):
        open_folder(folder)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_tensor_that_the_index_does_not_have_is_refused(
    is_elsewhere: bool, tmp_path: Path
) -> None:
    folder = published("olmoe").write(tmp_path / "m", n_files=2)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    name = "model.norm.weight"
    own = index["weight_map"].pop(name)
    if is_elsewhere:
        others = set(index["weight_map"].values()) - {own}
        index["weight_map"][name] = others.pop()
    path.write_text(json.dumps(index))
    with pytest.raises(ModelFileError, match=rf"tensor '{name}': is in {own}, where"):
        open_folder(folder)


def test_b06_an_index_never_writes_or_reads_elsewhere(tmp_path: Path) -> None:
    folder = published("olmoe").write(tmp_path / "m", n_files=2)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["x"] = "../../../tmp/p2pmoe-pwn"
    path.write_text(json.dumps(index))
    with pytest.raises(ModelFileError, match="no plain name"):
        open_model(folder)
    assert not Path("/", "tmp", "p2pmoe-pwn").exists()


def test_an_unknown_architecture_can_be_looked_at_only(tmp_path: Path) -> None:
    tensors = {
        "a.weight": bf16([[1, 2], [3, 4]]),
        "b.weight_packed": u8([[1, 2, 3]]),
        "c": f32(1.0),
    }
    config = {"architectures": ["KimiK3ForConditionalGeneration"]}
    folder = Published(config, tensors).write(tmp_path / "m")
    header = read_header(folder)
    assert header.metadata["general.architecture"] == config["architectures"][0]
    assert {name: t.n_bytes for name, t in header.tensors.items()} == {
        "a.weight": 8,
        "b.weight_packed": 3,
        "c": 4,
    }
    message = "architecture 'KimiK3ForConditionalGeneration' is unknown here"
    with pytest.raises(UnsupportedModel, match=message):
        open_model(folder)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{}", "key 'architectures': is missing"),
        (b'{"architectures": "X"}', "is no list of strings"),
        (b'{"architectures": []}', "is not one name"),
        (b'{"architectures": ["A", "B"]}', "is not one name"),
        (b'{"a": 1, "a": 2}', "duplicate key 'a'"),
        (b"[]", "is a JSON list"),
        (b'{"architectures": ["OlmoeForCausalLM"]}', "is missing"),
    ],
)
def test_a_malformed_configuration_is_refused(
    raw: bytes, message: str, tmp_path: Path
) -> None:
    folder = published("olmoe").write(tmp_path / "m")
    (folder / "config.json").write_bytes(raw)
    for call in (open_folder, read_folder):
        with pytest.raises(ModelFileError, match=message):
            call(folder)


ODD = [None, 0, -1, 1, 7, 1 << 40, 10**400, 0.5, 1e308, True, "", "x", [], [1], ["a"]]
ODD += [{}, {"rope_type": "llama3", "rope_theta": 1.0}, {"rope_type": "longrope"}]


@given(data=st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_value_of_any_key_is_a_model_or_an_error(
    data: st.DataObject, tmp_path: Path
) -> None:
    model = published(data.draw(st.sampled_from(TINY_FOLDERS)))
    keys = [*sorted(model.config), "rope_scaling", "text_config", "quantization_config"]
    for key in data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2)):
        if key != "architectures":
            model.config[key] = data.draw(st.sampled_from(ODD))
    name = data.draw(st.sampled_from(sorted(model.tensors)))
    if data.draw(st.booleans()):
        one = model.tensors[name]
        model.tensors[name] = SafeTensor(one.dtype, one.shape[::-1], one.content)
    folder = model.write(tmp_path / "m")
    with contextlib.suppress(ModelFileError), open_model(folder) as view:
        for tensor in view.tensors:
            view.read(tensor)


def test_a_tensor_too_many_and_one_too_few(tmp_path: Path) -> None:
    model = published("olmoe")
    model.tensors["model.layers.0.self_attn.q_proj.weight_scale"] = f32([1.0])
    with pytest.raises(UnsupportedModel, match="1 tensors have no place in olmoe"):
        open_folder(model.write(tmp_path / "m"))
    model = published("olmoe")
    del model.tensors["model.layers.1.mlp.gate.weight"]
    with pytest.raises(ModelFileError, match=r"'model.layers.1.mlp.gate.weight'"):
        open_folder(model.write(tmp_path / "m"))


def test_a_misshapen_tensor_is_named(tmp_path: Path) -> None:
    model = published("mixtral")
    name = "model.layers.1.self_attn.q_proj.weight"
    model.tensors[name] = f32(np.zeros((62, 64)))
    with pytest.raises(ModelFileError, match=rf"tensor '{name}': does not fit: 62"):
        open_folder(model.write(tmp_path / "m"))


def test_llama3_and_longrope_factors_are_tensors(tmp_path: Path) -> None:
    model = published("olmoe")
    model.config["rope_parameters"] |= {
        "rope_type": "longrope",
        "short_factor": [1.0] * 8,
        "long_factor": [2.0] * 8,
        "original_max_position_embeddings": 256,
    }
    with open_model(model.write(tmp_path / "m")) as view:
        factors = view.read("rope_factors_long.weight")
        assert factors == np.full(8, 2, np.float32).tobytes()


def test_reading_one_expert_costs_one_experts_memory(tmp_path: Path) -> None:
    """The stack is 32 MB; an expert's part of it 0.5 MB."""
    model = published("qwen3_moe")
    n_ff, n_embd = 1024, 64
    for layer in range(3):
        stem = f"model.layers.{layer}.mlp"
        for name in [n for n in model.tensors if n.startswith(f"{stem}.experts")]:
            del model.tensors[name]
        stack = np.full((64, 2 * n_ff, n_embd), layer + 1, np.float32)
        stack[:, n_ff:] *= -1
        model.tensors[f"{stem}.experts.gate_up_proj"] = f32(stack)
        down = np.zeros((64, n_embd, n_ff), np.float32)
        model.tensors[f"{stem}.experts.down_proj"] = f32(down)
    model.config["num_local_experts"] = 64
    folder = model.write(tmp_path / "m")
    model.tensors.clear()
    with open_model(folder) as view:
        up = view.tensor("blk.1.ffn_up_exps.weight")
        size = up.n_bytes // 64
        tracemalloc.start()
        content = view.read_range(up.offset + 5 * size, size)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert content == np.full(n_ff * n_embd, -2, np.float32).tobytes()
    assert peak < 3 * size + (1 << 20)


@pytest.mark.slow
def test_a_frontier_models_folder_opens(tmp_path: Path) -> None:
    """As many tensors as DeepSeek-V3 has, on holes of the disk."""
    folder = write_deepseek_v3(tmp_path / "m", 163)
    with open_model(folder) as model:
        assert len(model.tensors) == 3 + 3 * 13 + 58 * 18


def test_a_folder_of_any_name_gives_a_name_that_can_be_written(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"m\x1b[31m\xff-v1")
    shutil.copytree(shared_path("models/tiny/olmoe"), folder)
    header, _ = read_folder(folder)
    assert header.metadata["general.name"] == "m[31m-v1"
