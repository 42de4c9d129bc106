"""GGUF files as they were published, from 2023 on, cut down in every size.

Keys, tensor names, formats and the ratios of shapes are those of the files that hosts
have, as the converters of their time wrote them (llama.cpp's converters and the headers
that its loader prints in public reports); the weights are seeded. `real_files` lists
them; `write_real` writes one, or its parts.

Sizes in tables: E width, V tokens, Q and K all query and KV heads, H one head, X
experts, F an expert's, S the shared experts', D a dense layer's width, L the latent, R
its turned part, C the compressed query, N and W a head's unturned part and its value.
`blk.*` is every layer, `blk.2+` those from 2 on, `@` each expert.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from mobile_worker.arithmetic.formats.block_format import Format
from tests.support.gguf_writer import Raw, TensorBytes, write_gguf
from tests.support.mini_models import matrix, vector
from tests.support.real_tables import OLD_VOCABULARY
from tests.support.vocabularies import byte_level_metadata, sentence_piece_metadata

__all__ = ["RealFile", "write_real"]

_U16, _I32, _ARRAY = 2, 5, 9
_SIZES = {
    "LAYERS": 2,
    "E": 64,
    "H": 16,
    "N_HEADS": 4,
    "N_KV": 2,
    "X": 4,
    "F": 32,
    "S": 32,
    "D": 96,
    "L": 64,
    "R": 16,
    "C": 32,
    "N": 32,
    "W": 32,
}


@dataclass(frozen=True, kw_only=True)
class RealFile:
    """One published file: keys without the architecture before them, and tables."""

    name: str
    architecture: str
    keys: Mapping[str, object]
    tables: tuple[str, ...]
    general: Mapping[str, object] = field(default_factory=dict)
    pre: str | None = "qwen2"
    sizes: Mapping[str, int] = field(default_factory=dict)
    n_parts: int = 1  # an empty first part and the tensors in the others

    def size(self, name: str) -> int:
        own = {**_SIZES, **self.sizes}
        own |= {"Q": own["H"] * own["N_HEADS"], "K": own["H"] * own["N_KV"]}
        own |= {"L+R": own["L"] + own["R"], "N+R": own["N"] + own["R"]}
        own |= {"N+W": own["N"] + own["W"]}
        return prod(own[part] if part in own else int(part) for part in name.split("*"))

    @property
    def metadata(self) -> dict[str, object]:
        text = OLD_VOCABULARY if self.pre == "" else {}
        if self.pre == "":
            tokens = sentence_piece_metadata(**{"tokenizer.ggml.pre": None})
        else:
            tokens = byte_level_metadata(self.pre)
        own = {f"{self.architecture}.{key}": value for key, value in self.keys.items()}
        general = {"general.architecture": self.architecture, **self.general}
        kinds = tokens["tokenizer.ggml.token_type"]
        assert isinstance(kinds, list)
        tokens["tokenizer.ggml.token_type"] = _signed(kinds)
        return tokens | general | own | text

    @property
    def tensors(self) -> list[TensorBytes]:
        tokens = self.metadata["tokenizer.ggml.tokens"]
        assert isinstance(tokens, list)
        made = replace(self, sizes={**self.sizes, "V": len(tokens)})
        return [tensor for table in self.tables for tensor in made.table(table)]

    def table(self, table: str) -> Iterator[TensorBytes]:
        for line in table.split("\n"):
            if not line.strip():
                continue
            name, format_name, *dimensions = line.split()
            shape = tuple(map(self.size, dimensions))
            for full in self._names(name):
                yield _tensor(full, Format[format_name.upper()], shape)

    def _names(self, name: str) -> Iterator[str]:
        found = re.match(r"blk\.(\*|\d+\+)\.", name)
        if found is None:
            yield name
            return
        first = 0 if found[1] == "*" else int(found[1][:-1])
        for layer in range(first, self.size("LAYERS")):
            own = name.replace(found[0], f"blk.{layer}.")
            yield from (
                [own]
                if "@" not in own
                else (own.replace("@", str(expert)) for expert in range(self.size("X")))
            )


def _tensor(name: str, block_format: Format, shape: tuple[int, ...]) -> TensorBytes:
    if block_format is not Format.F32 or name.endswith("ffn_gate_inp.weight"):
        return matrix(name, *shape, block_format=block_format)
    near = 0.0 if name.endswith(".bias") else 1.0
    return replace(vector(name, prod(shape), near), shape=shape)


def _signed(values: Sequence[int]) -> Raw:
    """Return an array of i32, which is how files have the kinds of tokens."""
    head = struct.pack("<IQ", _I32, len(values))
    return Raw(_ARRAY, head + struct.pack(f"<{len(values)}i", *values))


def _short(value: int) -> Raw:
    return Raw(_U16, struct.pack("<H", value))


def write_real(
    file: RealFile,
    folder: Path,
    keys: Mapping[str, object] | None = None,
    more: Sequence[TensorBytes] = (),
    without: Sequence[str] = (),
) -> Path:
    """Write a file and return its path, of the first part if there are parts.

    `keys` (whole names) replace or, if None, drop keys; `more` tensors replace or join;
    tensors with one of `without` in their names are left out.
    """
    changed = {**file.metadata, **(keys or {})}
    metadata = {key: value for key, value in changed.items() if value is not None}
    named = {tensor.name: tensor for tensor in [*file.tensors, *more]}
    tensors = [
        tensor
        for name, tensor in named.items()
        if not any(word in name for word in without)
    ]
    if file.n_parts == 1:
        return write_gguf(folder / f"{file.name}.gguf", metadata, tensors)
    n = file.n_parts
    counts: dict[str, object] = {
        "split.count": _short(n),
        "split.tensors.count": Raw(_I32, struct.pack("<i", len(tensors))),
    }
    for part in range(n):
        own = tensors[part - 1 :: n - 1] if part else []
        head = {} if part else metadata
        path = folder / f"{file.name}-{part + 1:05d}-of-{n:05d}.gguf"
        write_gguf(path, {**head, "split.no": _short(part), **counts}, own)
    return folder / f"{file.name}-00001-of-{n:05d}.gguf"
