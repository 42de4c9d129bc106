"""Which format each tensor gets: a plan, made from the header alone.

Experts are most of a model and take few bits well; routers, which decide, and
attention, which everything passes through, do not, and are small. A plan has a format
for every part, or None to keep what the source has.

- Only matrices of weights change: vectors, biases and whatever is not named `.weight`
  become F32, as the arithmetic wants them (unless their part is kept). So do indexers,
  which choose what attention sees.
- A tensor that is in blocks already and takes no more bits than it would is kept as it
  is: a wider format gives back nothing of what was lost.
- Rows that are no whole number of blocks are written as Q8_0 if that fits, else kept.
- A tensor whose format does not change is copied bit for bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mobile_worker.arithmetic.formats.block_format import Format, block_size
from p2pmoe.weights.gguf import Tensor
from p2pmoe.weights.model_header import ModelHeader
from p2pmoe.weights.names import layer_count
from p2pmoe.weights.parts import Part, part_of

__all__ = ["DEFAULT_PRECISION", "PlannedTensor", "Precision", "plan_conversion"]

Precision = Mapping[Part, Format | None]

DEFAULT_PRECISION: Final[Precision] = MappingProxyType(
    {
        Part.EXPERTS: Format.Q4_0,
        Part.SHARED: Format.Q8_0,
        Part.LATENT: Format.Q8_0,
        Part.ROUTER: Format.F32,
        Part.ATTENTION: Format.Q8_0,
        Part.DENSE: Format.Q8_0,
        Part.EMBEDDING: Format.Q8_0,
        Part.REST: Format.F32,
        Part.NEXT: Format.Q8_0,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTensor:
    """A tensor, the format it gets, and the one asked for where rows do not fit it.

    `is_narrower` is one that stays in fewer bits than were asked for.
    """

    source: Tensor
    format: Format
    misfit: Format | None = None
    is_narrower: bool = False

    @property
    def is_copy(self) -> bool:
        """Whether its bytes stay as they are."""
        return self.format is self.source.format

    @property
    def n_bytes(self) -> int:
        """Bytes that it will take."""
        values, size = block_size(self.format)
        n_rows = self.source.n_bytes // self.source.row_bytes
        return n_rows * (self.source.n_cols // values * size)


def plan_conversion(header: ModelHeader, precision: Precision) -> list[PlannedTensor]:
    """Return what becomes of every tensor, in the source's order.

    Raises:
        ModelFileError: the header does not say what the model is.
    """
    n_layer = layer_count(header)
    return [
        _plan(tensor, precision[part_of(tensor.name, n_layer)])
        for tensor in header.tensors.values()
    ]


def _plan(tensor: Tensor, wanted: Format | None) -> PlannedTensor:
    if wanted is None:
        return PlannedTensor(source=tensor, format=tensor.format)
    if not _is_matrix_of_weights(tensor):
        wanted = Format.F32
    if _is_in_blocks(tensor.format) and _bits(tensor.format) <= _bits(wanted):
        is_narrower = _bits(tensor.format) < _bits(wanted)
        return PlannedTensor(
            source=tensor, format=tensor.format, is_narrower=is_narrower
        )
    if _fits(tensor, wanted):
        return PlannedTensor(source=tensor, format=wanted)
    narrower = _bits(Format.Q8_0) < _bits(tensor.format)
    usable = narrower and _fits(tensor, Format.Q8_0)
    return PlannedTensor(
        source=tensor,
        format=Format.Q8_0 if usable else tensor.format,
        misfit=wanted,
    )


def _is_matrix_of_weights(tensor: Tensor) -> bool:
    if len(tensor.shape) < 2 or ".indexer." in tensor.name:
        return False
    return tensor.name.endswith(".weight")


def _fits(tensor: Tensor, block_format: Format) -> bool:
    return tensor.n_cols % block_size(block_format)[0] == 0


def _is_in_blocks(block_format: Format) -> bool:
    return block_size(block_format)[0] > 1


def _bits(block_format: Format) -> float:
    values, size = block_size(block_format)
    return size * 8 / values
