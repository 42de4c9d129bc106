import hashlib
import mmap
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.expert_id import ExpertId
from p2pmoe.weights import model_file
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.model_file import open_model
from tests.support.backbone_model import POCKET, manifest_of, model_of
from tests.support.gguf_writer import TensorBytes, write_gguf
from tests.support.mini_m3 import MINI_METADATA, mini_tensors, write_mini_m3
from tests.support.shared import shared_path

ONE = ExpertId(3, 31)


def test_a_shard_is_the_manifests() -> None:
    entry = next(e for e in manifest_of(POCKET).experts if e.expert == ONE)
    experts = ExpertFile(model_of(POCKET))
    assert hashlib.sha256(experts.shard(ONE)).digest() == entry.digest
    assert experts.n_bytes(ONE) == entry.n_bytes


def test_experts_are_read_though_the_opener_has_closed(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as model_file:
        experts = ExpertFile(model_file)
    assert experts.weights(ExpertId(1, 3)).gate.n_cols == 64


def test_an_expert_without_numbers_is_refused_and_named(tmp_path: Path) -> None:
    name = "blk.1.ffn_down_exps.weight"
    raw = bytearray(mini_tensors()[name].content)
    one = len(raw) // 4
    raw[2 * one : 2 * one + 2] = b"\0\x7c"
    path = write_mini_m3(tmp_path / "m.gguf", tensors={name: bytes(raw)})
    with open_model(path) as model_file:
        experts = ExpertFile(model_file)
    experts.weights(ExpertId(1, 1))
    with pytest.raises(ModelFileError, match=r"down of expert 1\.2: row 0 of a"):
        experts.weights(ExpertId(1, 2))


def test_an_expert_of_an_unknown_format_is_refused_and_named(tmp_path: Path) -> None:
    name = "blk.1.ffn_up_exps.weight"
    bent = write_mini_m3(tmp_path / "m.gguf").read_bytes()
    kind = bent.index(name.encode()) + len(name) + 4 + 3 * 8
    path = tmp_path / "i8.gguf"
    path.write_bytes(bent[:kind] + bytes([Format.I8, 0, 0, 0]) + bent[kind + 4 :])
    with open_model(path) as model_file:
        experts = ExpertFile(model_file)
    with pytest.raises(FormatUnsupported, match=r"i8\.gguf, expert 1\.0: .* I8"):
        experts.weights(ExpertId(1, 0))


def test_scales_of_experts_are_never_passed_over(tmp_path: Path) -> None:
    scale = TensorBytes(
        name="blk.1.ffn_up_exps.scale", type=Format.F32, shape=(4,), content=bytes(16)
    )
    path = write_gguf(
        tmp_path / "m.gguf", MINI_METADATA, [*mini_tensors().values(), scale]
    )
    with open_model(path) as model_file:
        with pytest.raises(UnsupportedModel, match=r"ffn_up_exps\.scale"):
            ExpertFile(model_file)


def test_rows_are_coded_as_the_layers_formats_need() -> None:
    x = np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 256)
    quantized = ExpertFile(model_of(POCKET)).code(1, x, NumpyKernel())
    assert quantized.coded is not None
    assert quantized.floats is None
    f32 = shared_path("models/tiny/minimax_m3/model-f32.gguf")
    floats = ExpertFile(model_of(f32)).code(1, x[:, :64], NumpyKernel())
    assert floats.coded is None
    assert floats.floats is not None


def test_experts_of_a_layer_may_differ_in_what_they_read(tmp_path: Path) -> None:
    """Each expert has tensors of its own, the last of them in F32."""
    tensors = {
        name: tensor for name, tensor in mini_tensors().items() if "_exps" not in name
    }
    for word, shape in {"gate": (32, 64), "up": (32, 64), "down": (64, 32)}.items():
        for index in range(4):
            kind = Format.F32 if index == 3 else Format.Q8_0
            name = f"blk.1.ffn_{word}.{index}.weight"
            size = 4 * 64 * 32 if index == 3 else 64 * 34
            tensors[name] = TensorBytes(
                name=name, type=kind, shape=shape, content=bytes(size)
            )
    path = write_gguf(tmp_path / "m.gguf", MINI_METADATA, list(tensors.values()))
    with open_model(path) as model_file:
        experts = ExpertFile(model_file)
    assert experts.kinds(1) == {True, False}
    assert experts.weights(ExpertId(1, 3)).gate.format is Format.F32


def test_read_past_the_systems_cache_an_expert_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = ExpertFile(model_of(POCKET))
    shared = file._file
    monkeypatch.setattr(model_file, "_WORTH_IT", 0)
    rooms: list[int] = []

    def in_pages(n_bytes: int) -> memoryview:
        rooms.append(n_bytes)
        return memoryview(mmap.mmap(-1, n_bytes))

    monkeypatch.setattr(model_file, "weight_room", in_pages)
    for expert in (ExpertId(1, 0), ExpertId(7, 31)):
        shared.past_cache = False
        usual = file.weights(expert)
        shared.past_cache = True
        other = file.weights(expert)
        for mine, theirs in zip(
            (usual.gate, usual.up, usual.down),
            (other.gate, other.up, other.down),
            strict=True,
        ):
            assert bytes(mine.raw) == bytes(theirs.raw)
            assert theirs.raw.readonly
    assert max(rooms) <= file.n_bytes(ExpertId(1, 0)) + 6 * 4096
