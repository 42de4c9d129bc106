"""How much of the machine a local side may use, and for what; a value."""

from dataclasses import dataclass
from pathlib import Path

from mobile_worker.arithmetic.candidates import Keeps
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.backbone.budget import MemoryWish
from p2pmoe.config import DiskAccess, DiskPolicy, MissingPolicy

__all__ = ["LocalOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """How much of the machine to use; `n_context` 0 means the model's own.

    `n_sequences` may run at once, on `n_lanes`, each with up to `n_chunks` of its
    prompts under way; see budget.py for what they take. `kernel` names the one to
    compute with, None the best here; `n_threads` share an expert call.
    """

    data: Path
    ram_bytes: int | None = None
    disk_cache_bytes: int | None = None
    disk_access: DiskAccess = DiskAccess.READ
    n_lanes: int = 1
    n_chunks: int = 1
    n_sequences: int = 16
    n_context: int = 0
    profile: Profile = Profile.R16
    policy: DiskPolicy = DiskPolicy.FALLBACK
    missing: MissingPolicy = MissingPolicy.WAIT
    drop_bound: float = 0.0
    kernel: str | None = None
    n_threads: int = 1
    prefetches: bool = False  # weights may be fetched from workers before a pass
    ahead_bytes: int | None = None  # for them; None: a part

    def wish(self, keeps: Keeps, n_context: int) -> MemoryWish:
        """Return what memory is there for, with a kernel that keeps this much."""
        return MemoryWish(
            ram_bytes=self.ram_bytes,
            keeps=keeps,
            n_context=n_context,
            n_lanes=self.n_lanes,
            n_chunks=self.n_chunks,
            n_sequences=self.n_sequences,
            disk_bytes=self.disk_cache_bytes,
            prefetches=self.prefetches,
            ahead_bytes=self.ahead_bytes,
        )
