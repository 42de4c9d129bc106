"""What a market is told at its start."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from secrets import SystemRandom

from p2pmoe.market.canaries import CanarySettings
from p2pmoe.market.price import PriceSettings
from p2pmoe.market.pricing.model import ModelPrices

__all__ = ["MarketSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSettings:
    """What does not change while a market runs.

    tie_salt: up to 64 random bytes. first_serial: placements count from here; above
    every serial of an earlier run. sign: by the market's own key. models: their prices
    in an earlier run, by manifest hash. random: what nobody can foresee.
    """

    network: bytes
    sign: Callable[[bytes], bytes]
    tie_salt: bytes
    first_serial: int
    prices: PriceSettings = field(default_factory=PriceSettings)
    models: Mapping[bytes, ModelPrices] = field(default_factory=dict)
    canaries: CanarySettings = field(default_factory=CanarySettings)
    random: Random = field(default_factory=SystemRandom)
