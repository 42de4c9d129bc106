"""The list of a model's experts: what each shard is, and where its bytes lie.

A manifest names, for each routed expert, the SHA-256 and size of its shard (gate, up
and down matrix in the file's own block format, in this order, nothing between; where
experts are biased, their gate, up and down bias in F32 after that) and the three or six
byte ranges of the model file that hold these parts. The backbone signs it; its name on
the network is `manifest_hash`.

Wire form: canonical msgpack, an array of

    version = 2 | name | architecture | n_layer | n_expert | n_embd
    | layouts  [[gate, up, down format, n_embd, n_ff, kind, alpha f64, limit f64,
                 biased]...]
    | experts  [[packed id, layout, digest 32 B, n_bytes,
                 [[offset, length] x 3 or, if biased, 6]]...]
    | sources  [url...] | tokenizer digest 0 or 32 B

Formats are ggml type ids; a worker refuses those that its arithmetic lacks, so a
manifest may name formats newer than its reader. Experts ascend strictly. Whatever is
not exactly what `encode` would write is refused. No I/O.
"""

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import msgpack

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.errors import RemoteError
from mobile_worker.expert_id import ExpertId

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

_VERSION = 2
_MAX_EXPERTS = 1 << 17
_MAX_LAYOUTS = 4096
_MAX_LAYERS = 1024
_MAX_WIDTH = 1 << 20
_MAX_SOURCES = 16
_MAX_URL = 2048
_MAX_NAME = 200
_MAX_OFFSET = 1 << 60
_MAX_SHARD_BYTES = 1 << 34
_MAX_F32 = 3.4028234663852886e38  # the arithmetic uses such numbers as f32
_SCHEMES = ("https://", "http://")


class ManifestError(RemoteError):
    """A manifest breaks the format, a bound, or its own arithmetic."""


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
    sources: tuple[str, ...] = ()
    tokenizer_digest: bytes = b""

    def __post_init__(self) -> None:
        """Check every bound, so that no invalid manifest can exist."""
        _check_text("name", self.name)
        _check_text("architecture", self.architecture)
        _check_int("n_layer", self.n_layer, 1, _MAX_LAYERS)
        _check_int("n_expert", self.n_expert, 1, 1 << 16)
        _check_int("n_embd", self.n_embd, 1, _MAX_WIDTH)
        _check_digest("tokenizer digest", self.tokenizer_digest, empty=True)
        _check_sources(self.sources)
        _check_int("number of layouts", len(self.layouts), 0, _MAX_LAYOUTS)
        _check_int("number of experts", len(self.experts), 0, _MAX_EXPERTS)
        for layout in self.layouts:
            _check_layout(layout, self.n_embd)
        previous = -1
        for expert in self.experts:
            _check_expert(expert, self)
            if expert.expert.packed <= previous:
                raise ManifestError(f"{expert.expert} is out of order or double")
            previous = expert.expert.packed

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
        tail = [list(self.sources), self.tokenizer_digest]
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
            max_array_len=_MAX_EXPERTS,
            max_str_len=_MAX_URL,
            max_bin_len=32,
            max_map_len=0,
            max_ext_len=0,
        )
        manifest = _build(parts)
    except (ValueError, TypeError, msgpack.UnpackException) as exc:
        raise ManifestError("manifest is malformed") from exc
    if manifest.encode() != blob:
        raise ManifestError("manifest is not in canonical form")
    return manifest


def _build(parts: object) -> Manifest:
    version, name, architecture, n_layer, n_expert, n_embd, *rest = _items(parts, 10)
    if version != _VERSION:
        is_newer = isinstance(version, int) and version > _VERSION
        writer = "a newer" if is_newer else "an older"
        reason = f"manifest version {str(version)[:40]} is not {_VERSION}"
        raise ManifestError(f"{reason}: {writer} release wrote it")
    layouts, experts, sources, tokenizer_digest = rest
    return Manifest(
        name=name,
        architecture=architecture,
        n_layer=n_layer,
        n_expert=n_expert,
        n_embd=n_embd,
        layouts=tuple(_unpack_layout(item) for item in layouts),
        experts=tuple(_unpack_expert(item) for item in experts),
        sources=tuple(sources),
        tokenizer_digest=tokenizer_digest,
    )


def _items(value: object, n: int) -> list[Any]:
    if not isinstance(value, list) or len(value) != n:
        raise ManifestError(f"an array of {n} items was expected")
    return value


def _pack_layout(layout: ExpertLayout) -> list[Any]:
    activation = layout.activation
    formats = [int(layout.gate_format), int(layout.up_format), int(layout.down_format)]
    shape = [layout.n_embd, layout.n_ff]
    numbers = [float(activation.alpha), float(activation.limit)]
    return [*formats, *shape, int(activation.kind), *numbers, bool(layout.biased)]


def _unpack_layout(item: object) -> ExpertLayout:
    *formats, n_embd, n_ff, kind, alpha, limit, biased = _items(item, 9)
    gate, up, down = formats
    _check_int("activation kind", kind, 0, 255)
    _check_float("activation alpha", alpha)
    _check_float("activation limit", limit)
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
    _check_int("expert id", packed, 0, 0xFFFFFFFF)
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
    _check_int(f"{name} layout", expert.layout, 0, len(manifest.layouts) - 1)
    _check_digest(f"{name} digest", expert.digest)
    _check_int(f"{name} size", expert.n_bytes, 1, _MAX_SHARD_BYTES)
    biases = manifest.layouts[expert.layout].bias_bytes
    n_ranges = 3 + len(biases)
    if len(expert.ranges) != n_ranges:
        reason = f"{name}: {len(expert.ranges)} ranges instead of {n_ranges}"
        raise ManifestError(reason)
    for offset, length in expert.ranges:
        _check_int(f"{name} offset", offset, 0, _MAX_OFFSET)
        _check_int(f"{name} length", length, 1, _MAX_SHARD_BYTES)
    if sum(length for _, length in expert.ranges) != expert.n_bytes:
        raise ManifestError(f"{name}: ranges do not add up to {expert.n_bytes} bytes")
    if tuple(length for _, length in expert.ranges[3:]) != biases:
        raise ManifestError(f"{name}: biases are not of {list(biases)} bytes")


def _check_layout(layout: ExpertLayout, n_embd: int) -> None:
    for field in fields(ExpertLayout):
        if field.name.endswith("_format"):
            _check_int(field.name, getattr(layout, field.name), 0, 255)
    _check_int("n_ff", layout.n_ff, 1, _MAX_WIDTH)
    if layout.n_embd != n_embd:
        raise ManifestError(f"a layout has width {layout.n_embd}, the model {n_embd}")
    _check_float("activation alpha", layout.activation.alpha)
    _check_float("activation limit", layout.activation.limit)


def _check_sources(sources: tuple[str, ...]) -> None:
    _check_int("number of sources", len(sources), 0, _MAX_SOURCES)
    for url in sources:
        _check_text("source", url, limit=_MAX_URL)
        if not url.startswith(_SCHEMES):
            raise ManifestError(f"source {url[:80]!r} is no http address")


def _check_int(what: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ManifestError(f"{what} is no integer: {str(value)[:40]!r}")
    if not low <= value <= high:
        raise ManifestError(f"{what} {value} is not in {low}..{high}")


def _check_float(what: str, value: object) -> None:
    if not isinstance(value, float) or not abs(value) <= _MAX_F32:  # nor NaN
        raise ManifestError(f"{what} is no finite f32: {str(value)[:40]!r}")


def _check_text(what: str, value: object, *, limit: int = _MAX_NAME) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise ManifestError(f"{what} is no text of 1 to {limit} characters")
    if not value.isprintable():
        raise ManifestError(f"{what} {value[:80]!r} holds control characters")


def _check_digest(what: str, value: object, *, empty: bool = False) -> None:
    if not isinstance(value, bytes) or len(value) not in ({0, 32} if empty else {32}):
        raise ManifestError(f"{what} is not 32 bytes")
