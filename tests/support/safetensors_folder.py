"""Folders of safetensors for tests, written apart from the code that reads them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.shared import shared_path

__all__ = [
    "Published",
    "SafeTensor",
    "assert_same_model",
    "bf16",
    "f32",
    "published",
    "reference",
    "safetensors_bytes",
    "u8",
]


@dataclass(frozen=True)
class SafeTensor:
    dtype: str
    shape: tuple[int, ...]
    content: bytes

    @property
    def floats(self) -> npt.NDArray[np.float32]:
        assert self.dtype == "F32"
        return np.frombuffer(self.content, np.float32).reshape(self.shape)


def f32(values: Any) -> SafeTensor:
    array = np.asarray(values, np.float32)
    return SafeTensor("F32", array.shape, array.tobytes())


def u8(values: Any, dtype: str = "U8") -> SafeTensor:
    array = np.asarray(values, np.uint8)
    return SafeTensor(dtype, array.shape, array.tobytes())


def bf16(bits: Any) -> SafeTensor:
    array = np.asarray(bits, np.uint16)
    return SafeTensor("BF16", array.shape, array.tobytes())


def safetensors_bytes(tensors: dict[str, SafeTensor]) -> bytes:
    entries, at = {}, 0
    for name, tensor in tensors.items():
        end = at + len(tensor.content)
        entries[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [at, end],
        }
        at = end
    header = json.dumps(entries).encode()
    data = b"".join(tensor.content for tensor in tensors.values())
    return len(header).to_bytes(8, "little") + header + data


@dataclass
class Published:
    """A model as its publisher has it; change it, then write it."""

    config: dict[str, Any]
    tensors: dict[str, SafeTensor]

    def write(self, folder: Path, *, n_files: int = 0) -> Path:
        """Write one model.safetensors, or so many files and their index."""
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        if not n_files:
            content = safetensors_bytes(self.tensors)
            (folder / "model.safetensors").write_bytes(content)
            return folder
        weight_map: dict[str, str] = {}
        for number in range(n_files):
            name = f"model-{number + 1:05d}-of-{n_files:05d}.safetensors"
            part = dict(list(self.tensors.items())[number::n_files])
            (folder / name).write_bytes(safetensors_bytes(part))
            weight_map |= dict.fromkeys(part, name)
        index = {"metadata": {}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder

    def rename(self, old: str, new: str) -> None:
        self.tensors = {
            name.replace(old, new): tensor for name, tensor in self.tensors.items()
        }

    def stack_experts(self, stem: str, words: tuple[str, str, str], to: str) -> None:
        """Replace experts one by one (gate, up, down) by gate_up_proj and down_proj."""
        n = 0
        while f"{stem}.experts.{n}.{words[0]}.weight" in self.tensors:
            n += 1
        gate, up, down = (
            np.stack(
                [
                    self.tensors.pop(f"{stem}.experts.{e}.{word}.weight").floats
                    for e in range(n)
                ]
            )
            for word in words
        )
        self.tensors[f"{to}.experts.gate_up_proj"] = f32(
            np.concatenate([gate, up], axis=1)
        )
        self.tensors[f"{to}.experts.down_proj"] = f32(down)


def published(architecture: str) -> Published:
    """Return a tiny model, read without the code under test."""
    folder = shared_path(f"models/tiny/{architecture}")
    raw = (folder / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8:start])
    entries.pop("__metadata__", None)
    tensors = {
        name: SafeTensor(
            entry["dtype"],
            tuple(entry["shape"]),
            raw[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]],
        )
        for name, entry in entries.items()
    }
    return Published(json.loads((folder / "config.json").read_text()), tensors)


def reference(architecture: str) -> ModelFile:
    """Open the same weights as a GGUF file, which llama.cpp's converter wrote."""
    return open_model(shared_path(f"models/tiny/{architecture}/model-f32.gguf"))


def assert_same_model(folder: Path, architecture: str) -> None:
    """The folder's view has the GGUF file's tensors, bytes and keys."""
    with open_model(folder) as view, reference(architecture) as file:
        assert view.tensors.keys() == file.tensors.keys()
        for name, tensor in file.tensors.items():
            ours = view.tensor(name)
            assert (ours.format, ours.shape) == (tensor.format, tensor.shape), name
            assert view.read(name) == file.read(name), name
        for key, value in file.metadata.items():
            if not key.startswith(("general.", "tokenizer.")):
                assert view.metadata.get(key) == value, key
        ours, theirs = (m.metadata["general.architecture"] for m in (view, file))
        assert ours == theirs
