"""What a backbone is told: one frozen value for `serve`, checked before anything runs.

Rules: each field has its unit in its name; a value that cannot work is refused here
with the option's name; nothing reads the environment or a global afterwards. The
figures below `Tuning` are not options: they are stated here so that tests and
operators can see and change them in one place.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from p2pmoe.errors import ConfigurationError
from p2pmoe.speculating import SpeculationWish
from relay.endpoint import Endpoint
from relay.keys import PeerId

__all__ = [
    "DiskAccess",
    "DiskPolicy",
    "MissingPolicy",
    "NetworkAccess",
    "ServeConfig",
    "Tuning",
    "parse_listen",
]

MAX_THREADS = 256


class DiskPolicy(StrEnum):
    """What the local disk is to a routed expert that is not in RAM."""

    OFF = "off"  # never computed from disk (checks of remote results still are)
    FALLBACK = "fallback"  # only when no live holder answers in time
    TIER = "tier"  # weighed against the network by the cost model


class DiskAccess(StrEnum):
    """How experts are had from the disk."""

    READ = "read"  # positioned reads into a bounded cache
    MMAP = "mmap"  # mapped by a child process that computes them


class MissingPolicy(StrEnum):
    """What becomes of a request when nobody can compute an expert that it needs."""

    WAIT = "wait"  # it waits for a holder until its deadline
    FAIL = "fail"  # it ends at once
    DROP = "drop"  # it goes on without, within a bound; counted and told


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Figures of the backbone that are no options of the command line."""

    n_lanes: int | None = None  # None: 2 in a network, to fill its waits, else 1
    max_batch: int = 16  # sequences that decode together on a lane
    max_cold_experts: int | None = None  # distinct ones that a step may read from disk
    max_queued_requests: int = 64
    park_after_s: float = 1.0  # a batch waits no longer for an expert that nobody holds
    request_deadline_s: float = 600.0
    prefill_chunk_tokens: int = 64
    prefill_chunks: int = 3  # of a lane's prompts, at most, while workers are awaited
    overlap: bool = True  # False: a lane does one thing at a time, to be measured
    hedging: bool = True  # False: no call is sent twice, to be measured
    ahead_bytes: int | None = None  # of --ram, for weights fetched ahead; None: a part
    audit_bytes: int | None = None  # rows kept for the ledger's audits; None: a part
    demand_interval_s: float = 3.0
    rebalance_interval_s: float = 30.0
    accept_interval_s: float = 0.05
    drain_s: float = 3.0
    settled_spot_check_rate: float = 0.002
    settled_passes: int = 2000
    spot_check_rate: float = 0.01
    newcomer_spot_check_rate: float = 0.05
    newcomer_passes: int = 200
    first_passes: int = 8  # every answer is checked until so many have passed

    def __post_init__(self) -> None:
        """Refuse figures that cannot work."""
        for name in (
            "spot_check_rate",
            "newcomer_spot_check_rate",
            "settled_spot_check_rate",
        ):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}, not 0 to 1")
        for name, shown in (
            ("n_lanes", "n_lanes"),
            ("max_cold_experts", "max_cold_experts"),
            ("ahead_bytes", "ahead_bytes"),
            ("audit_bytes", "--audit-rows"),
            ("max_batch", "--batch"),
            ("prefill_chunk_tokens", "prefill_chunk_tokens"),
            ("prefill_chunks", "prefill_chunks"),
            ("max_queued_requests", "--queue"),
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"{shown} is {value}, below 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkAccess:
    """The relay to join, by which right, and the network meant. `token` is secret.

    further: more relays of the network, of equal worth. lan: look for peers on the
    local network too.
    """

    endpoint: Endpoint
    further: tuple[Endpoint, ...] = ()
    token: bytes = field(default=b"", repr=False)
    network: PeerId | None = None  # None takes it from the relay's descriptor
    lan: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """All that `p2pmoe serve` was asked for.

    `access` None runs everything in this process (the single-process oracle).
    `ram_bytes` None keeps every routed expert resident. `n_context` 0 means the
    model's own. `wait_coverage` is the share of experts (0 to 1) that must be in RAM or
    have a live holder before `/readyz` says ready. `kernel` names the one to compute
    with, None the best on this machine; `n_threads` share an expert call.

    `manifest` is the address of a manifest by which all but the routed experts are
    fetched; then `model` is the folder they are kept in. `disk_cache_bytes` of
    `ram_bytes` are for experts on their way from the disk; None: by the budget's rules.
    `drop_bound` is the largest share (0 to 1) of a token's routed weight in a layer
    that may be missing under `MissingPolicy.DROP`. With `require_evaluation` a setting
    that `p2pmoe eval` has not measured is not served.
    """

    model: Path
    data: Path
    access: NetworkAccess | None = None
    manifest: str | None = None
    ram_bytes: int | None = None
    disk_cache_bytes: int | None = None
    disk: DiskPolicy = DiskPolicy.FALLBACK
    disk_access: DiskAccess = DiskAccess.READ
    missing: MissingPolicy = MissingPolicy.WAIT
    drop_bound: float = 0.0
    profile: str = "r16"
    listen: str = "127.0.0.1:8080"
    n_context: int = 0
    wait_coverage: float = 1.0
    ready_file: Path | None = None
    pre_tokenizer: str | None = None
    api_key: str | None = None
    kernel: str | None = None
    n_threads: int = 1
    require_evaluation: bool = False
    speculation: SpeculationWish = field(default_factory=SpeculationWish)
    tuning: Tuning = field(default_factory=Tuning)

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the option."""
        self._refuse_values()
        self._refuse_combinations()
        parse_listen(self.listen)

    def _refuse_values(self) -> None:
        if self.profile not in {"r16", "r8", "r32"}:
            raise ConfigurationError(
                f"unknown --profile {self.profile!r}", advice="use r16, r8 or r32"
            )
        if not 0.0 <= self.wait_coverage <= 1.0:
            raise ConfigurationError(
                f"--wait-coverage {self.wait_coverage} is no share",
                advice="give a number from 0 to 1",
            )
        if not 0.0 <= self.drop_bound <= 1.0:
            raise ConfigurationError(
                f"--drop-bound {self.drop_bound} is no share",
                advice="give a number from 0 to 1",
            )
        if self.ram_bytes is not None and self.ram_bytes <= 0:
            raise ConfigurationError(f"--ram {self.ram_bytes} is not positive")
        if self.disk_cache_bytes is not None and self.disk_cache_bytes <= 0:
            raise ConfigurationError(
                f"--disk-cache {self.disk_cache_bytes} is not positive"
            )
        if not 1 <= self.n_threads <= MAX_THREADS:
            raise ConfigurationError(
                f"--threads {self.n_threads} is not 1 to {MAX_THREADS}"
            )
        if self.n_context < 0:
            raise ConfigurationError(f"--context {self.n_context} is negative")

    def _refuse_combinations(self) -> None:
        if self.drop_bound and self.missing is not MissingPolicy.DROP:
            raise ConfigurationError(
                f"--drop-bound goes with --missing drop, not {self.missing}"
            )
        if self.manifest is not None and self.access is None:
            raise ConfigurationError(
                "--manifest without a network leaves experts nowhere",
                advice="name a relay or an invite, or a model file",
            )
        if self.manifest is not None and self.disk is not DiskPolicy.OFF:
            raise ConfigurationError(
                f"--manifest leaves no experts on disk for --disk {self.disk}",
                advice="drop --disk",
            )
        if self.access is None and self.disk is DiskPolicy.OFF and self.ram_bytes:
            raise ConfigurationError(
                "--disk off with --ram and without --relay leaves experts nowhere",
                advice="name a relay, or drop --disk off",
            )


def parse_listen(text: str) -> tuple[str, int]:
    """Return (host, port) of `HOST:PORT`, `[V6]:PORT` or `:PORT`.

    Raises:
        ConfigurationError: the port is missing or not 0 to 65535.
    """
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(
            f"--listen {text!r} is not HOST:PORT", advice="for example 127.0.0.1:8080"
        )
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)
