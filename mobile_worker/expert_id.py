"""Which expert: a layer of the model and an index within that layer.

An `ExpertId` orders by layer, then by index, and packs into one u32 for the wire
(layer in the upper 16 bits). Whether the layer and the index exist in a given model
is for the caller to check against its manifest.
"""

from dataclasses import dataclass
from typing import Self

__all__ = ["ExpertId"]


@dataclass(frozen=True, slots=True, order=True)
class ExpertId:
    """One routed expert: `layer` and `index`, both 0 to 65,535."""

    layer: int
    index: int

    def __post_init__(self) -> None:
        if not (0 <= self.layer <= 0xFFFF and 0 <= self.index <= 0xFFFF):
            raise ValueError(f"no such expert: layer {self.layer}, index {self.index}")

    @property
    def packed(self) -> int:
        """The id as one u32: layer << 16 | index."""
        return self.layer << 16 | self.index

    @classmethod
    def unpack(cls, packed: int) -> Self:
        """Return the id that `packed` stands for.

        Raises:
            ValueError: `packed` is no u32.
        """
        return cls(packed >> 16, packed & 0xFFFF)

    def __str__(self) -> str:
        return f"{self.layer}.{self.index}"
