"""What of a model is base: the headers of its files and all that is no routed expert.

Blocks behind the last layer (next-token blocks) are no base: nothing is computed with
them. Spans are exact ranges of the address space; tensors without an expert between
them make one span, padding included. `hash_base` reads and cuts them into the pieces
that a manifest names.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from mobile_worker.shards.model_files import MAX_PIECE_BYTES, BasePiece
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.model_header import ModelHeader
from p2pmoe.weights.names import block_of, expert_kind, layer_count

__all__ = ["Span", "base_spans", "hash_base", "is_base"]

Span = tuple[int, int]  # offset, bytes


def is_base(name: str, n_layer: int) -> bool:
    """Return whether a backbone computes with a tensor of this name itself."""
    block = block_of(name)
    if block is None:
        return True
    layer, ending = block
    return layer < n_layer and expert_kind(ending) is None


def base_spans(model: ModelHeader, starts: Sequence[int]) -> list[Span]:
    """Return the base of a model whose files begin at `starts`, ascending.

    `starts` ends with the size of all files. Raises ModelFileError.
    """
    n_layer = layer_count(model)
    tensors = sorted(model.tensors.values(), key=lambda tensor: tensor.offset)
    offsets = [tensor.offset for tensor in tensors]
    pieces: list[tuple[int, int, bool]] = []
    for start, end in pairwise(starts):
        first = next((at for at in offsets if start <= at < end), end)
        pieces.append((start, first - start, True))
    for tensor in tensors:
        base = is_base(tensor.name, n_layer)
        pieces.append((tensor.offset, tensor.n_bytes, base))
    return _merged(sorted(pieces))


def _merged(pieces: Iterable[tuple[int, int, bool]]) -> list[Span]:
    spans: list[Span] = []
    was_base = False
    for offset, n_bytes, is_ours in pieces:
        if is_ours and n_bytes:
            if was_base:
                first, _ = spans.pop()
                spans.append((first, offset + n_bytes - first))
            else:
                spans.append((offset, n_bytes))
        was_base = is_ours if n_bytes else was_base
    return spans


def hash_base(
    model: ModelFile,
    spans: Sequence[Span],
    progress: Callable[[int, int], None] = lambda _, __: None,
) -> tuple[BasePiece, ...]:
    """Read spans and return them as pieces with their hashes.

    `progress` is called with (bytes done, bytes in all). Raises ModelFileError.
    """
    total = sum(n_bytes for _, n_bytes in spans)
    done = 0
    pieces = []
    for first, n_bytes in spans:
        for offset in range(first, first + n_bytes, MAX_PIECE_BYTES):
            length = min(MAX_PIECE_BYTES, first + n_bytes - offset)
            digest = hashlib.sha256(model.read_range(offset, length)).digest()
            pieces.append(BasePiece(offset=offset, n_bytes=length, digest=digest))
            done += length
            progress(done, total)
    return tuple(pieces)
