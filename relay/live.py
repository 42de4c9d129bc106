"""What of a relay's settings may change while it runs. No I/O in here.

The caller makes a whole new `LiveSettings` and hands it to `RunningRelay.apply`: limits
go to connected peers at once, who was revoked is told and closed, a relay that the map
drains says so. What is not in here needs a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from relay.frame_types import Limits
from relay.fronts import ProxyNetwork
from relay.keys import PeerId
from relay.limits import limits_of
from relay.relay_map import RelayMap
from relay.revocations import Revocations
from relay.tokens import RateClass

__all__ = ["DEFAULT_RATES", "LiveSettings"]

DEFAULT_RATES: Final[Mapping[RateClass, Limits]] = MappingProxyType(
    {rate_class: limits_of(rate_class) for rate_class in RateClass}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """Limits by rate class, who is revoked, the relay map, which fronts are believed.

    `rates` has every class; its `lease_s` is not used: the token says it.
    `trusted_proxies`: whose X-Forwarded-For is believed, beside that of a front on
    loopback if the relay is told to stand behind one.
    """

    rates: Mapping[RateClass, Limits] = field(default_factory=lambda: DEFAULT_RATES)
    revoked: Revocations = field(default_factory=Revocations)
    relay_map: RelayMap | None = None
    trusted_proxies: tuple[ProxyNetwork, ...] = ()

    @property
    def map_version(self) -> int:
        """Version of the map that is served; 0: none."""
        return 0 if self.relay_map is None else self.relay_map.version

    def limits(self, rate_class: RateClass, lease_s: int) -> Limits:
        """Return what a peer of this class is told; `lease_s` 0: no end."""
        return replace(self.rates[rate_class], lease_s=lease_s)

    def is_draining(self, relay_id: PeerId, path: str) -> bool:
        """Tell whether the map wants peers to leave this relay, served at `path`."""
        if self.relay_map is None:
            return False
        mine = [e for e in self.relay_map.entries if e.relay_id == relay_id]
        here = [entry for entry in mine if entry.url.endswith(path)] or mine
        return bool(here) and all(entry.draining for entry in here)
