"""Everything that is counted of a model: parameters, bytes and experts by part.

All of it comes from shapes and formats in the header; no weight is read. A parameter is
one value of a tensor. Active are those that one token is multiplied with: all but the
embedding table (of which a token takes one row; a table that is the output matrix too
counts), the experts that were not chosen, and the next-token blocks. Those blocks are
counted as a part, and nowhere else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from p2pmoe.weights.gguf import Tensor
from p2pmoe.weights.model_header import ModelHeader
from p2pmoe.weights.names import block_of, layer_count
from p2pmoe.weights.parts import Part, part_of

__all__ = ["ExpertSizes", "FormatSize", "Inventory", "PartSize", "take_inventory"]

_MAX_TOP_K = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSize:
    """What tensors hold together."""

    n_tensors: int = 0
    n_parameters: int = 0
    n_bytes: int = 0

    def plus(self, tensor: Tensor) -> "PartSize":
        """Return the size with one tensor more."""
        return PartSize(
            n_tensors=self.n_tensors + 1,
            n_parameters=self.n_parameters + prod(tensor.shape),
            n_bytes=self.n_bytes + tensor.n_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSize:
    """What is kept in one format."""

    name: str
    n_tensors: int
    n_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertSizes:
    """The routed experts; one of them holds `min_bytes` to `max_bytes`."""

    layers: tuple[int, ...]  # that have some, ascending
    n_per_layer: tuple[int, ...]  # by the tensors, in the order of `layers`
    top_k: int
    min_bytes: int
    max_bytes: int

    @property
    def n_experts(self) -> int:
        """Experts of all layers together."""
        return sum(self.n_per_layer)

    @property
    def calls_per_token(self) -> int:
        """How many experts a token is sent to, over all layers."""
        return sum(min(self.top_k, n) for n in self.n_per_layer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What a model holds; `parts` has all of them, empty ones too."""

    architecture: str
    name: str  # what the file calls itself, or ""
    n_context: int | None
    n_layer: int
    n_next: int  # next-token blocks behind the layers
    parts: Mapping[Part, PartSize]
    formats: tuple[FormatSize, ...]  # most bytes first
    experts: ExpertSizes | None  # None if there are no routed experts
    n_active: int

    @property
    def n_parameters(self) -> int:
        """Parameters of the model, without its next-token blocks."""
        return sum(
            size.n_parameters
            for part, size in self.parts.items()
            if part is not Part.NEXT
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(size.n_bytes for size in self.parts.values())

    @property
    def bytes_at_4_bits(self) -> int:
        """Bytes if every parameter took half a byte, without any scale."""
        return (self.n_parameters + 1) // 2


def take_inventory(header: ModelHeader) -> Inventory:
    """Count what a header promises.

    Raises:
        ModelFileError: It does not say which architecture it is or how many blocks it
            has, or says something absurd.
    """
    meta = header.metadata
    architecture = meta.text("general.architecture")
    n_layer = layer_count(header)
    parts = dict.fromkeys(Part, PartSize())
    for tensor in header.tensors.values():
        part = part_of(tensor.name, n_layer)
        parts[part] = parts[part].plus(tensor)
    top_k = meta.integer(f"{architecture}.expert_used_count", 0, high=_MAX_TOP_K)
    layers = _expert_layers(header.tensors.values(), n_layer)
    context = f"{architecture}.context_length"
    return Inventory(
        architecture=architecture,
        name=meta.text("general.name", ""),
        n_context=meta.integer(context) if context in meta else None,
        n_layer=n_layer,
        n_next=meta.integer(f"{architecture}.block_count") - n_layer,
        parts=parts,
        formats=_formats(header.tensors.values()),
        experts=_experts(layers, top_k),
        n_active=_active(header.tensors, parts, layers.values(), top_k),
    )


def _formats(tensors: Iterable[Tensor]) -> tuple[FormatSize, ...]:
    sizes: dict[str, PartSize] = {}
    for tensor in tensors:
        name = tensor.format.name
        sizes[name] = sizes.get(name, PartSize()).plus(tensor)
    found = [
        FormatSize(name=name, n_tensors=size.n_tensors, n_bytes=size.n_bytes)
        for name, size in sizes.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.n_bytes, each.name)))


@dataclass(slots=True)
class _Layer:
    """The routed experts of a layer, from stacked tensors or those of single ones."""

    n_parameters: int = 0
    stacked: int = 0  # experts in its stacked tensors
    stacked_bytes: int = 0  # in stacked tensors, of all experts
    single: dict[int, int] = field(default_factory=dict)  # expert -> bytes of its own

    def add(self, tensor: Tensor, ending: str) -> None:
        self.n_parameters += prod(tensor.shape)
        number = ending.split(".")[1]
        if number.isdecimal():
            index = int(number)
            self.single[index] = self.single.get(index, 0) + tensor.n_bytes
        else:
            self.stacked = max(self.stacked, tensor.shape[0])
            self.stacked_bytes += tensor.n_bytes

    @property
    def n_experts(self) -> int:
        return self.stacked or max(1, len(self.single))

    @property
    def sizes(self) -> list[int]:
        """Bytes of experts, one for all that are stacked."""
        single = self.single.values() or (0,)
        each = self.stacked_bytes // self.n_experts
        return [each + n_bytes for n_bytes in single]


def _expert_layers(tensors: Iterable[Tensor], n_layer: int) -> dict[int, _Layer]:
    layers: dict[int, _Layer] = {}
    for tensor in tensors:
        block = block_of(tensor.name)
        if block and part_of(tensor.name, n_layer) is Part.EXPERTS:
            layers.setdefault(block[0], _Layer()).add(tensor, block[1])
    return dict(sorted(layers.items()))


def _experts(layers: Mapping[int, _Layer], top_k: int) -> ExpertSizes | None:
    if not layers:
        return None
    sizes = [size for layer in layers.values() for size in layer.sizes]
    return ExpertSizes(
        layers=tuple(layers),
        n_per_layer=tuple(layer.n_experts for layer in layers.values()),
        top_k=top_k,
        min_bytes=min(sizes),
        max_bytes=max(sizes),
    )


def _active(
    tensors: Mapping[str, Tensor],
    parts: Mapping[Part, PartSize],
    layers: Iterable[_Layer],
    top_k: int,
) -> int:
    idle = {Part.EXPERTS, Part.NEXT}
    busy = sum(size.n_parameters for part, size in parts.items() if part not in idle)
    table = tensors.get("token_embd.weight")
    if table is not None and "output.weight" in tensors:
        busy -= prod(table.shape)
    return busy + sum(
        layer.n_parameters * min(top_k, layer.n_experts) // layer.n_experts
        for layer in layers
    )
