"""The keys of a model file's metadata, every number bounded before it is used.

A number from a file sizes loops and memory, so it has a bound far above any model that
exists (fault B01). Keys are given without their prefix: `Keys` adds the architecture.
"""

from typing import Final

from p2pmoe.model.errors import ModelRefused
from p2pmoe.weights.model_header import ModelHeader

__all__ = ["MAX_CONTEXT", "Keys"]

MAX_CONTEXT: Final = 1 << 24
_MAX_SIZE: Final = 1 << 16  # of layers, heads, experts, widths
_MAX_CAP: Final = 1e6


class Keys:
    """The metadata of one architecture, by keys without their prefix."""

    def __init__(self, header: ModelHeader) -> None:
        """Take the header; its `general.architecture` is the prefix."""
        self.header = header
        self.architecture = header.metadata.text("general.architecture")

    def has(self, key: str) -> bool:
        """Whether the file has the key."""
        return f"{self.architecture}.{key}" in self.header.metadata

    def size(
        self,
        key: str,
        default: int | None = None,
        *,
        low: int = 1,
        high: int = _MAX_SIZE,
    ) -> int:
        """Return an integer in low..high; ModelFileError else."""
        return self.header.metadata.integer(
            f"{self.architecture}.{key}", default, low=low, high=high
        )

    def real(
        self, key: str, default: float | None = None, *, low: float, high: float
    ) -> float:
        """Return a number in low..high.

        Raises ModelFileError if it is missing or no number, ModelRefused beyond.
        """
        value = self.header.metadata.real(f"{self.architecture}.{key}", default)
        if not low <= value <= high:
            raise ModelRefused(
                f"key {self.architecture}.{key}: {value} is not in {low}..{high}"
            )
        return value

    def soft_cap(self, key: str) -> float | None:
        """Return what scores or logits stay below; None without the key, and for 0."""
        return self.real(key, 0.0, low=0.0, high=_MAX_CAP) or None

    def rotated(self, head_dim: int) -> int:
        """Return how many values of a head are turned, all if the file does not say.

        Raises ModelRefused for an odd number and for more than there are.
        """
        n_rotated = self.size("rope.dimension_count", head_dim)
        if n_rotated % 2 or n_rotated > head_dim:
            raise ModelRefused(f"rotary over {n_rotated} of {head_dim} values")
        return n_rotated

    def pattern(self, key: str, n_layer: int, *, default: int) -> tuple[bool, ...]:
        """Return a flag for each layer.

        The file has one for each, or a period: True but for each period's last layer.
        Raises ModelFileError for anything else.
        """
        name = f"{self.architecture}.{key}"
        if not isinstance(self.header.metadata.get(name), tuple):
            period = self.size(key, default)
            return tuple((layer + 1) % period != 0 for layer in range(n_layer))
        flags = self.header.metadata.flags(name)
        if len(flags) != n_layer:
            raise ModelRefused(f"key {name}: {len(flags)} flags for {n_layer} layers")
        return flags

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        """Return a boolean; ModelFileError else."""
        return self.header.metadata.flag(f"{self.architecture}.{key}", default)
