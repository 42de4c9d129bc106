"""How a relay runs: its settings, checked as a whole before anything is opened."""

import os
from dataclasses import dataclass, field
from typing import Final

from relay.defaults import DRAIN_S, MAX_HANDSHAKES
from relay.errors import ConfigError
from relay.gate import GateLimits
from relay.greetings import MAX_DESCRIPTOR_BYTES
from relay.keys import PeerId, SigningKey
from relay.live import LiveSettings
from relay.tls import SelfSigned, TlsFiles

__all__ = ["MAX_SHARD", "RelayConfig", "check_config", "quarter_of_memory"]

MAX_SHARD: Final = 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    """How a relay runs.

    `host` None: all addresses. `tls` None only with `behind_front`: a TLS front stands
    before it, and `host` is then a loopback address. `network` None only with `open`:
    anybody may join. `descriptor`: the network's signed text, handed on unread.
    `market`: the peer that is told from which networks others come; None: nobody is.
    `inside`: listen on a free port of 127.0.0.1 too, with the relay's own certificate,
    for roles of the same process, whatever stands before the public port. `shard`: this
    process serves the path `<path>/<shard>` alone; a front routes by path to several.
    `live`: what may change while it runs.
    """

    identity: SigningKey
    host: str | None = None
    port: int = 443
    tls: TlsFiles | SelfSigned | None = field(default_factory=SelfSigned)
    behind_front: bool = False
    network: PeerId | None = None
    open: bool = False
    descriptor: bytes = b""
    market: PeerId | None = None
    hosts: frozenset[str] = frozenset()
    path: str = "/relay"
    metrics_token: str = ""
    gate: GateLimits = field(default_factory=GateLimits)
    max_handshakes: int = MAX_HANDSHAKES
    max_queued_bytes: int = 0
    drain_s: float = DRAIN_S
    inside: bool = False
    shard: int | None = None
    live: LiveSettings = field(default_factory=LiveSettings)

    @property
    def served_path(self) -> str:
        """The path at which peers join."""
        return self.path if self.shard is None else f"{self.path}/{self.shard}"


def check_config(config: RelayConfig) -> None:
    """Refuse settings that contradict each other.

    Raises:
        ConfigError: the first contradiction.
    """
    if config.network is None and not config.open:
        raise ConfigError(
            "a relay without a network key admits nobody",
            advice="name the network's public key, or ask for --open",
        )
    if config.tls is None and not config.behind_front:
        raise ConfigError(
            "a relay without TLS needs a TLS front",
            advice="use --self-signed, --cert and --key, or --behind-front",
        )
    if config.shard is not None and not 0 <= config.shard <= MAX_SHARD:
        raise ConfigError(f"shard {config.shard} is not 0 to {MAX_SHARD}")
    if len(config.descriptor) > MAX_DESCRIPTOR_BYTES:
        raise ConfigError(
            f"network descriptor of {len(config.descriptor)} bytes, "
            f"above {MAX_DESCRIPTOR_BYTES}"
        )


def quarter_of_memory() -> int:
    """Return a quarter of this host's memory in bytes: the cap of all queues."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 1 << 30
    return total // 4
