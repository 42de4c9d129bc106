"""The files whose changes a running relay takes up: limits, revocations, relay map.

They are read together, and taken together or not at all: a file that is broken, or an
older version than the one in force, changes nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.limits_file import read_limits
from p2pmoe.network.relays import read_map
from p2pmoe.network.revoking import read_revocations
from relay.fronts import ProxyNetwork
from relay.keys import PeerId
from relay.live import LiveSettings

__all__ = ["LiveFiles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """Where they lie. limits: none means what is built in."""

    folder: OperatorFolder
    network: PeerId
    limits: Path | None = None
    trusted_proxies: tuple[ProxyNetwork, ...] = ()

    def read(self, held: LiveSettings | None = None) -> LiveSettings:
        """Read them all; `held` is what is in force, if a relay runs.

        Raises:
            ConfigurationError: a file is broken, or older than what is in force.
        """
        live = LiveSettings(
            rates=read_limits(self.limits),
            revoked=read_revocations(self.folder, self.network),
            relay_map=read_map(self.folder.relay_map, self.network),
            trusted_proxies=self.trusted_proxies,
        )
        if held is not None:
            _check_newer(
                self.folder.revocations, live.revoked.version, held.revoked.version
            )
            _check_newer(self.folder.relay_map, live.map_version, held.map_version)
        return live


def _check_newer(path: Path, found: int, held: int) -> None:
    if found < held:
        what = f"of version {found}" if found else "gone"
        raise ConfigurationError(
            f"{path} is {what}, and version {held} is in force",
            advice="put the newer file back, or start the relay anew",
        )
