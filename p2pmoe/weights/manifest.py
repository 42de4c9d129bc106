"""The manifest of a model file: every expert's shard, hashed from the file's bytes.

Building it reads all routed experts once (seconds for a large file), so there is a
progress callback; call it from a worker thread where an event loop must go on.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mobile_worker.arithmetic.activation import Activation
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.manifest import ExpertLayout, Manifest, ManifestExpert
from mobile_worker.shards.model_files import BasePiece, ModelFilePart
from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.experts import (
    ExpertRanges,
    HalfOrder,
    expert_layers,
    layer_ranges,
    read_expert,
)
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.names import (
    architecture,
    expert_activation,
    layer_count,
    model_size,
)

__all__ = ["ManifestOptions", "build_manifest", "expert_layout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """What the file does not say: public addresses, base, tokenizer, merged halves."""

    files: tuple[ModelFilePart, ...] = ()
    base: tuple[BasePiece, ...] = ()
    tokenizer_digest: bytes = b""
    half_order: HalfOrder | None = None


def expert_layout(ranges: ExpertRanges, activation: Activation) -> ExpertLayout:
    """Return the formats and sizes of one expert."""
    return ExpertLayout(
        gate_format=int(ranges.gate.format),
        up_format=int(ranges.up.format),
        down_format=int(ranges.down.format),
        n_embd=ranges.gate.n_cols,
        n_ff=ranges.gate.n_rows,
        activation=activation,
        biased=bool(ranges.biases),
    )


def build_manifest(
    model: ModelFile,
    options: ManifestOptions | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    digests: Mapping[ExpertId, bytes] | None = None,
) -> Manifest:
    """Hash every expert of the file and list it.

    `progress` is called with (experts done, experts in all) after each expert. Experts
    whose `digests` are given are not read.

    Raises:
        UnsupportedModel: No routed experts, or experts that cannot be served.
        ModelFileError: The file's tensors do not fit its sizes, or it was cut short.
        ManifestError: A size is beyond what a manifest can hold.
    """
    options = options or ManifestOptions()
    activation = expert_activation(model)
    n_expert = model_size(model, "expert_count", 0)
    layers = expert_layers(model)
    if not layers or not n_expert:
        raise UnsupportedModel(model.path, "has no routed experts")
    layouts: dict[ExpertLayout, int] = {}
    experts: list[ManifestExpert] = []
    for layer in layers:
        places = layer_ranges(model, layer, half_order=options.half_order)
        for index, ranges in enumerate(places):
            expert = ExpertId(layer, index)
            layout = layouts.setdefault(expert_layout(ranges, activation), len(layouts))
            digest = (digests or {}).get(expert) or _digest(model, ranges)
            experts.append(_entry(expert, layout, ranges, digest))
            if progress is not None:
                progress(len(experts), len(layers) * n_expert)
    return Manifest(
        name=model.name,
        architecture=architecture(model),
        n_layer=layer_count(model),
        n_expert=n_expert,
        n_embd=model_size(model, "embedding_length"),
        layouts=tuple(layouts),
        experts=tuple(experts),
        files=options.files,
        base=options.base,
        tokenizer_digest=options.tokenizer_digest,
    )


def _digest(model: ModelFile, ranges: ExpertRanges) -> bytes:
    return hashlib.sha256(read_expert(model, ranges)).digest()


def _entry(
    expert: ExpertId, layout: int, ranges: ExpertRanges, digest: bytes
) -> ManifestExpert:
    return ManifestExpert(
        expert=expert,
        layout=layout,
        digest=digest,
        n_bytes=ranges.n_bytes,
        ranges=ranges.parts,
    )
