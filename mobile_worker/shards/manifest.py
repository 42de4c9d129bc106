"""The list of a model's experts: what each shard is, and where its bytes lie.

A manifest names, for each routed expert, the SHA-256 and size of its shard (gate, up
and down matrix in the file's own block format, in this order, nothing between; where
experts are biased, their gate, up and down bias in F32 after that) and the three or six
byte ranges of the model file that hold these parts. The backbone signs it; its name on
the network is `manifest_hash`.

Wire form: canonical msgpack, an array of

    version = 3 | name | architecture | n_layer | n_expert | n_embd
    | layouts  [[gate, up, down format, n_embd, n_ff, kind, alpha f64, limit f64,
                 biased]...]
    | experts  [[packed id, layout, digest 32 B, n_bytes,
                 [[offset, length] x 3 or, if biased, 6]]...]
    | files    [[n_bytes, [url...]]...]
    | base     [[offset, length, digest 32 B]...]
    | tokenizer digest 0 or 32 B

Offsets count through the `files` laid end to end; a manifest may name none, and then
nothing says where the bytes can be had. `base` pieces are what a backbone without
experts has of the model (base.py): they ascend, touch no expert and need files. Formats
are ggml type ids; a worker refuses those that its arithmetic lacks, so a manifest may
name formats newer than its reader. Experts ascend strictly. Whatever is not exactly
what `encode` would write is refused. No I/O.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

import msgpack

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.bounds import (
    MAX_OFFSET,
    MAX_URL,
    ManifestError,
    check_digest,
    check_float,
    check_int,
    check_text,
)
from mobile_worker.shards.model_files import (
    MAX_BASE_PIECES,
    BasePiece,
    ModelFilePart,
    check_base,
    check_files,
)

__all__ = [
    "MAX_MANIFEST_BYTES",
    "ExpertLayout",
    "Manifest",
    "ManifestError",
    "ManifestExpert",
    "manifest_hash",
    "parse_manifest",
]

MAX_MANIFEST_BYTES = 16 << 20

_VERSION = 3
_MAX_EXPERTS = 1 << 17
_MAX_LAYOUTS = 4096
_MAX_LAYERS = 1024
_MAX_WIDTH = 1 << 20
_MAX_SHARD_BYTES = 1 << 34
_MAX_LISTS = 9 * _MAX_EXPERTS  # an expert has two and one a range, and there is a rest


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLayout:
    """Formats and sizes that experts share: gate and up are [n_ff, n_embd]."""

    gate_format: int  # ggml type id
    up_format: int
    down_format: int
    n_embd: int
    n_ff: int
    activation: Activation
    biased: bool = False

    @property
    def bias_bytes(self) -> tuple[int, ...]:
        """Bytes of the gate, up and down bias; nothing without biases."""
        if not self.biased:
            return ()
        return 4 * self.n_ff, 4 * self.n_ff, 4 * self.n_embd


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestExpert:
    """One expert's shard; `ranges` are (offset, length) of its parts, in order."""

    expert: ExpertId
    layout: int  # index into the manifest's layouts
    digest: bytes  # SHA-256 of the shard
    n_bytes: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All routed experts of one model file.

    Raises:
        ManifestError: A bound or a relation between the fields does not hold.
    """

    name: str
    architecture: str
    n_layer: int  # of the model, layers without experts included
    n_expert: int  # routed experts a layer
    n_embd: int
    layouts: tuple[ExpertLayout, ...]
    experts: tuple[ManifestExpert, ...]
    files: tuple[ModelFilePart, ...] = ()
    base: tuple[BasePiece, ...] = ()
    tokenizer_digest: bytes = b""

    def __post_init__(self) -> None:
        """Check every bound, so that no invalid manifest can exist."""
        check_text("name", self.name)
        check_text("architecture", self.architecture)
        check_int("n_layer", self.n_layer, 1, _MAX_LAYERS)
        check_int("n_expert", self.n_expert, 1, 1 << 16)
        check_int("n_embd", self.n_embd, 1, _MAX_WIDTH)
        check_digest("tokenizer digest", self.tokenizer_digest, empty=True)
        check_files(self.files)
        check_int("number of layouts", len(self.layouts), 0, _MAX_LAYOUTS)
        check_int("number of experts", len(self.experts), 0, _MAX_EXPERTS)
        for layout in self.layouts:
            _check_layout(layout, self.n_embd)
        previous = -1
        for expert in self.experts:
            _check_expert(expert, self)
            if expert.expert.packed <= previous:
                raise ManifestError(f"{expert.expert} is out of order or double")
            previous = expert.expert.packed
        spans = [place for expert in self.experts for place in expert.ranges]
        check_base(self.base, self.files, spans)

    def encode(self) -> bytes:
        """Return the canonical bytes."""
        layouts = [_pack_layout(layout) for layout in self.layouts]
        experts = [
            [
                e.expert.packed,
                e.layout,
                e.digest,
                e.n_bytes,
                [list(r) for r in e.ranges],
            ]
            for e in self.experts
        ]
        head = [self.name, self.architecture, self.n_layer, self.n_expert, self.n_embd]
        files = [[file.n_bytes, list(file.urls)] for file in self.files]
        base = [[piece.offset, piece.n_bytes, piece.digest] for piece in self.base]
        tail = [files, base, self.tokenizer_digest]
        packed: bytes = msgpack.packb([_VERSION, *head, layouts, experts, *tail])
        return packed


def manifest_hash(manifest: Manifest) -> bytes:
    """Return the manifest's name: SHA-256 of its canonical bytes."""
    return hashlib.sha256(manifest.encode()).digest()


def parse_manifest(blob: bytes) -> Manifest:
    """Read canonical bytes back.

    Raises:
        ManifestError: Too large, not this format, out of bounds, or not canonical.
    """
    if len(blob) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"manifest of {len(blob)} bytes is too large")
    try:
        parts = msgpack.unpackb(
            blob,
            max_array_len=max(_MAX_EXPERTS, MAX_BASE_PIECES),
            max_str_len=MAX_URL,
            max_bin_len=32,
            max_map_len=0,
            max_ext_len=0,
            list_hook=_counted(),
        )
        manifest = _build(parts)
    except (ValueError, TypeError, msgpack.UnpackException) as exc:
        raise ManifestError("manifest is malformed") from exc
    if manifest.encode() != blob:
        raise ManifestError("manifest is not in canonical form")
    return manifest


def _counted() -> Callable[[list[Any]], list[Any]]:
    """Return a function that ends the reading of more lists than a manifest has.

    An empty one is a byte of the manifest and sixty of memory.
    """
    numbers = count()

    def take(one: list[Any]) -> list[Any]:
        if next(numbers) >= _MAX_LISTS:
            raise ValueError("too many lists")
        return one

    return take


def _build(parts: object) -> Manifest:
    version, *rest = _items(parts)
    if version != _VERSION:
        is_newer = isinstance(version, int) and version > _VERSION
        writer = "a newer" if is_newer else "an older"
        reason = f"manifest version {str(version)[:40]} is not {_VERSION}"
        raise ManifestError(f"{reason}: {writer} release wrote it")
    if len(rest) != 10:
        raise ManifestError("an array of 11 items was expected")
    name, architecture, n_layer, n_expert, n_embd, *lists, tokenizer_digest = rest
    layouts, experts, files, base = lists
    return Manifest(
        name=name,
        architecture=architecture,
        n_layer=n_layer,
        n_expert=n_expert,
        n_embd=n_embd,
        layouts=tuple(_unpack_layout(item) for item in layouts),
        experts=tuple(_unpack_expert(item) for item in experts),
        files=tuple(_unpack_file(item) for item in files),
        base=tuple(_unpack_piece(item) for item in base),
        tokenizer_digest=tokenizer_digest,
    )


def _items(value: object, n: int | None = None) -> list[Any]:
    if not isinstance(value, list) or not value or n not in (None, len(value)):
        raise ManifestError(f"an array of {n or 11} items was expected")
    return value


def _unpack_file(item: object) -> ModelFilePart:
    n_bytes, urls = _items(item, 2)
    return ModelFilePart(n_bytes=n_bytes, urls=tuple(urls))


def _unpack_piece(item: object) -> BasePiece:
    offset, n_bytes, digest = _items(item, 3)
    return BasePiece(offset=offset, n_bytes=n_bytes, digest=digest)


def _pack_layout(layout: ExpertLayout) -> list[Any]:
    activation = layout.activation
    formats = [int(layout.gate_format), int(layout.up_format), int(layout.down_format)]
    shape = [layout.n_embd, layout.n_ff]
    numbers = [float(activation.alpha), float(activation.limit)]
    return [*formats, *shape, int(activation.kind), *numbers, bool(layout.biased)]


def _unpack_layout(item: object) -> ExpertLayout:
    *formats, n_embd, n_ff, kind, alpha, limit, biased = _items(item, 9)
    gate, up, down = formats
    check_int("activation kind", kind, 0, 255)
    check_float("activation alpha", alpha)
    check_float("activation limit", limit)
    if not isinstance(biased, bool):
        raise ManifestError(f"{str(biased)[:40]!r} does not say whether it is biased")
    return ExpertLayout(
        gate_format=gate,
        up_format=up,
        down_format=down,
        n_embd=n_embd,
        n_ff=n_ff,
        activation=Activation(kind=ActivationKind(kind), alpha=alpha, limit=limit),
        biased=biased,
    )


def _unpack_expert(item: object) -> ManifestExpert:
    packed, layout, digest, n_bytes, ranges = _items(item, 5)
    check_int("expert id", packed, 0, 0xFFFFFFFF)
    return ManifestExpert(
        expert=ExpertId.unpack(packed),
        layout=layout,
        digest=digest,
        n_bytes=n_bytes,
        ranges=tuple((offset, length) for offset, length in ranges),
    )


def _check_expert(expert: ManifestExpert, manifest: Manifest) -> None:
    name = str(expert.expert)
    if expert.expert.layer >= manifest.n_layer:
        raise ManifestError(f"{name}: the model has {manifest.n_layer} layers")
    if expert.expert.index >= manifest.n_expert:
        raise ManifestError(f"{name}: a layer has {manifest.n_expert} experts")
    check_int(f"{name} layout", expert.layout, 0, len(manifest.layouts) - 1)
    check_digest(f"{name} digest", expert.digest)
    check_int(f"{name} size", expert.n_bytes, 1, _MAX_SHARD_BYTES)
    biases = manifest.layouts[expert.layout].bias_bytes
    n_ranges = 3 + len(biases)
    if len(expert.ranges) != n_ranges:
        reason = f"{name}: {len(expert.ranges)} ranges instead of {n_ranges}"
        raise ManifestError(reason)
    for offset, length in expert.ranges:
        check_int(f"{name} offset", offset, 0, MAX_OFFSET)
        check_int(f"{name} length", length, 1, _MAX_SHARD_BYTES)
    if sum(length for _, length in expert.ranges) != expert.n_bytes:
        raise ManifestError(f"{name}: ranges do not add up to {expert.n_bytes} bytes")
    if tuple(length for _, length in expert.ranges[3:]) != biases:
        raise ManifestError(f"{name}: biases are not of {list(biases)} bytes")


def _check_layout(layout: ExpertLayout, n_embd: int) -> None:
    for field in fields(ExpertLayout):
        if field.name.endswith("_format"):
            check_int(field.name, getattr(layout, field.name), 0, 255)
    check_int("n_ff", layout.n_ff, 1, _MAX_WIDTH)
    if layout.n_embd != n_embd:
        raise ManifestError(f"a layout has width {layout.n_embd}, the model {n_embd}")
    check_float("activation alpha", layout.activation.alpha)
    check_float("activation limit", layout.activation.limit)
