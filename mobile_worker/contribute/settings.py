"""What a worker is told at its start, and how its memory is divided.

Of the memory limit a part is kept for weights that some kernels unpack or copy, so that
experts rest in their file's own bytes and the whole stays within the limit. A kernel
that reads weights in place leaves all of it to experts.
"""

from dataclasses import dataclass
from pathlib import Path

from mobile_worker.device_class import DeviceClass
from mobile_worker.governor.limits import Limits
from mobile_worker.governor.limits_file import LIMITS_FILE
from mobile_worker.governor.presets import UNLIMITED
from mobile_worker.governor.remembered import RECORD_FILE
from relay.endpoint import Endpoint
from relay.keys import PeerId
from relay.tokens import Role

__all__ = ["ContributeSettings"]

_DECODED_SHARE = 4  # a quarter of the memory
_MAX_DECODED_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributeSettings:
    """data: folder of key, shards and spool. network: None takes the relay's word.

    listen, advertise: `host:port` for direct links of a hub. lan: take direct links on
    the local network, whoever this is, and be found there. domain: failure domain.
    kernel: the one to compute with, None the best on this machine. drain_s: how long a
    clean stop may take. further: more relays of the network, of equal worth. limits:
    what the governor keeps to; memory, disk and threads are what they come to here.
    """

    data: Path
    endpoint: Endpoint
    token: bytes
    network: PeerId | None
    memory_bytes: int
    disk_bytes: int
    domain: str
    hub: bool = False
    listen: str | None = None
    advertise: tuple[str, ...] = ()
    lan: bool = False
    n_threads: int = 1
    kernel: str | None = None
    drain_s: float = 10.0
    further: tuple[Endpoint, ...] = ()
    limits: Limits = UNLIMITED

    @property
    def decoded_bytes(self) -> int:
        """Bytes that a kernel may keep unpacked weights in, if it needs any."""
        return min(self.memory_bytes // _DECODED_SHARE, _MAX_DECODED_BYTES)

    @property
    def device_class(self) -> DeviceClass:
        """The class told to the market."""
        return DeviceClass.HUB if self.hub else DeviceClass.LAPTOP

    @property
    def role(self) -> Role:
        """The role told to the relay and in the record."""
        return Role.HUB if self.hub else Role.WORKER

    @property
    def identity_file(self) -> Path:
        """Where the key is."""
        return self.data / "identity"

    @property
    def shard_folder(self) -> Path:
        """Where shards are."""
        return self.data / "shards"

    @property
    def last_leases(self) -> Path:
        """What the market granted last."""
        return self.data / "last-leases"

    @property
    def spool_folder(self) -> Path:
        """Where unfiled vouchers are."""
        return self.data / "spool"

    @property
    def receipt_folder(self) -> Path:
        """Where the own copy of filed vouchers is."""
        return self.data / "receipts"

    @property
    def limits_file(self) -> Path:
        """Where changed limits are written."""
        return self.data / LIMITS_FILE

    @property
    def record_file(self) -> Path:
        """Where this day's use and its user's pause are."""
        return self.data / RECORD_FILE
