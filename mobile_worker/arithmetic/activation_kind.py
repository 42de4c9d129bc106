"""Which gated activation an expert uses, as values.

Apart from the arithmetic itself, so that a market reads a manifest without numpy.
"""

from dataclasses import dataclass
from enum import IntEnum, unique

__all__ = ["Activation", "ActivationKind"]


@unique
class ActivationKind(IntEnum):
    """Which gated activation an expert uses; the value is stable on the wire."""

    SWIGLU = 0
    SWIGLU_OAI = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """An activation; `alpha` and `limit` (used as f32) matter to SWIGLU_OAI only."""

    kind: ActivationKind
    alpha: float = 1.702
    limit: float = 7.0
