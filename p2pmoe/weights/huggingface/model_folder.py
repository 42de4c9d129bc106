"""A folder of safetensors as a header and a source of bytes, both in GGUF's terms.

Opening reads config.json, the index and the files' headers, nothing else: a folder of
hundreds of gigabytes opens as fast as its headers are parsed. Everything is checked
before it is handed out: the index against the files, the tensors against the
architecture, and no tensor is left over.
"""

import hashlib
from contextlib import ExitStack
from pathlib import Path

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.byte_source import ByteSource, OpenFile
from p2pmoe.weights.errors import ModelFileError, listed
from p2pmoe.weights.gguf import Header, Tensor
from p2pmoe.weights.huggingface.computed_bytes import ComputedBytes, lay_out
from p2pmoe.weights.huggingface.config import parse_config
from p2pmoe.weights.huggingface.quantization import read_quantization
from p2pmoe.weights.huggingface.rope import add_rope_factors
from p2pmoe.weights.huggingface.safetensors import Dtype, read_safetensors
from p2pmoe.weights.huggingface.stored_views import PlacedTensor
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.huggingface.translate.registry import (
    architecture_name,
    is_known,
    text_part,
    translation_of,
)
from p2pmoe.weights.huggingface.views import ShapeMismatch, View
from p2pmoe.weights.huggingface.weight_files import (
    CONFIG_NAME,
    INDEX_NAME,
    WeightFiles,
    inside,
    read_small,
    weight_files,
)
from p2pmoe.weights.metadata import Metadata, MetadataValue

__all__ = ["open_folder", "read_folder"]

# dtype -> a format of as many bytes a value, for models that can only be looked at
_LIKE = {
    Dtype.F32: Format.F32,
    Dtype.F16: Format.F16,
    Dtype.BF16: Format.BF16,
    Dtype.F64: Format.F64,
    Dtype.I16: Format.I16,
    Dtype.I32: Format.I32,
    Dtype.I64: Format.I64,
}


def open_folder(folder: Path) -> tuple[ByteSource, Header]:
    """Open a folder's files, all there and whole, and return its bytes and header.

    Raises:
        ModelFileTruncated: a file is missing or ends before its data does.
        UnsupportedModel: an architecture, a coding or a tensor that is not known here.
        ModelFileError: a file or a name in it is malformed, or leads out of the folder.
    """
    with ExitStack() as undo:
        opened = _Folder(folder, is_whole=True)
        undo.callback(opened.close)
        metadata, views = opened.translate()
        tensors, n_bytes = lay_out(folder, views)
        source = ComputedBytes(folder, tensors, views, opened.files)
        undo.pop_all()
    return source, opened.header(metadata, tensors, n_bytes)


def read_folder(folder: Path) -> tuple[Header, int]:
    """Return a folder's header, whose tensor data need not be there, and its bytes.

    They are the header's `n_bytes` if the files are whole, and that part of it that
    the files hold if not. A model of an unknown architecture is returned under its own
    tensor names, to be looked at; raises as `open_folder` otherwise.
    """
    opened = _Folder(folder, is_whole=False)
    try:
        if not is_known(opened.config):
            header = opened.as_it_is()
            return header, opened.held(header.n_bytes)
        metadata, views = opened.translate()
    finally:
        opened.close()
    tensors, n_bytes = lay_out(folder, views)
    return opened.header(metadata, tensors, n_bytes), opened.held(n_bytes)


class _Folder:
    """A folder's files, open, and what their headers say."""

    def __init__(self, folder: Path, *, is_whole: bool) -> None:
        self.folder = folder
        raw = read_small(folder, CONFIG_NAME)
        self.config = parse_config(folder / CONFIG_NAME, raw)
        self.files: list[OpenFile] = []
        self.stored: dict[str, PlacedTensor] = {}
        self._needed_bytes = 0
        self._digest = hashlib.sha256(len(raw).to_bytes(8, "little") + raw)
        names = weight_files(folder)
        try:
            for name in names.names:
                self._open(name, is_whole=is_whole, weight_map=names.weight_map)
            _check_index(folder, names, self.stored)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for file in self.files:
            file.close()

    def held(self, n_bytes: int) -> int:
        """Return how much of `n_bytes` of views the files hold."""
        held = sum(file.n_bytes for file in self.files)
        return n_bytes * held // self._needed_bytes

    def translate(self) -> tuple[dict[str, MetadataValue], dict[str, View]]:
        """Return keys and views; UnsupportedModel if the architecture is unknown."""
        translation = translation_of(self.config)
        text = text_part(self.config)
        holder = text if "quantization_config" in text else self.config
        table = TensorTable(self.folder, self.stored, read_quantization(holder))
        metadata = translation.metadata(text)
        try:
            translation.tensors(table, text)
            add_rope_factors(table, text, _n_rotated(Metadata(self.folder, metadata)))
        except ShapeMismatch as exc:
            reason = f"does not fit: {exc}"
            raise ModelFileError(self.folder, reason, tensor=table.last) from exc
        table.finish(translation.architecture)
        return metadata, table.tensors

    def header(
        self,
        metadata: dict[str, MetadataValue],
        tensors: dict[str, Tensor],
        n_bytes: int,
    ) -> Header:
        name = "".join(c for c in self.folder.resolve().name if c.isprintable())
        return Header(
            metadata={"general.name": name} | metadata,
            tensors=tensors,
            n_bytes=n_bytes,
            fingerprint=self._digest.digest(),
        )

    def as_it_is(self) -> Header:
        """Return the stored tensors under their own names, laid end to end."""
        tensors: dict[str, Tensor] = {}
        end = 0
        for name, placed in self.stored.items():
            tensor = placed.tensor
            is_like = tensor.dtype in _LIKE
            tensors[name] = Tensor(
                name=name,
                format=_LIKE.get(tensor.dtype, Format.I8),
                shape=(tensor.shape if is_like else (tensor.n_bytes,)) or (1,),
                offset=end,
                n_bytes=tensor.n_bytes,
            )
            end += tensor.n_bytes
        architecture = architecture_name(self.config)
        return self.header({"general.architecture": architecture}, tensors, end)

    def _open(
        self, name: str, *, is_whole: bool, weight_map: dict[str, str] | None
    ) -> None:
        file = OpenFile(inside(self.folder, name))
        file.path = self.folder / name
        self.files.append(file)
        header = read_safetensors(file, is_whole=is_whole)
        for tensor_name, tensor in header.tensors.items():
            if weight_map is not None and weight_map.get(tensor_name) != name:
                reason = f"is in {name}, where the index does not have it"
                raise ModelFileError(
                    self.folder / INDEX_NAME, reason, tensor=tensor_name
                )
            self.stored[tensor_name] = PlacedTensor(file, tensor)
        self._needed_bytes += header.n_bytes
        self._digest.update(len(header.raw).to_bytes(8, "little") + header.raw)
        self._digest.update(header.n_bytes.to_bytes(8, "little"))


def _check_index(
    folder: Path, names: WeightFiles, stored: dict[str, PlacedTensor]
) -> None:
    if names.weight_map is None:
        return
    missing = names.weight_map.keys() - stored.keys()
    if missing:
        reason = f"{len(missing)} tensors of the index are in no file"
        raise ModelFileError(folder / INDEX_NAME, f"{reason}: {listed(missing)}")


def _n_rotated(metadata: Metadata) -> int:
    """Return how many values of a head are turned, as the files' readers find it."""
    prefix = metadata.text("general.architecture")
    for key in ("rope.dimension_count", "attention.key_length"):
        if f"{prefix}.{key}" in metadata:
            return metadata.integer(f"{prefix}.{key}")
    n_embd = metadata.integer(f"{prefix}.embedding_length")
    return n_embd // metadata.integer(f"{prefix}.attention.head_count", low=1)
