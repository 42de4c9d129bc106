"""How experts are had from the local disk: the interface, whatever stands behind it.

Two stand behind it: positioned reads into memory (`disk.py`) and a child process that
maps the file and computes there. Rules, for both:

- `begin` never waits for the disk: reads start, and the caller computes what it has in
  memory meanwhile; `finish` returns when all of the layer's calls are computed;
- an expert that the disk has lost is in the answer's `lost` and is logged once; the
  others are computed all the same (fault B03);
- values are those of the kernel for the same rows, to the byte, in whatever order they
  were read;
- safe from several decode threads; a pending answer belongs to the one that began it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId

__all__ = ["DiskAnswer", "DiskCall", "DiskExperts", "DiskWork", "PendingDisk"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiskCall:
    """One expert and the rows of the layer's input that go through it; None: all."""

    expert: int
    rows: npt.NDArray[np.int64] | None = None  # [n], ascending


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiskWork:
    """The calls of one layer and what they are computed with."""

    layer: int
    calls: Sequence[DiskCall]
    coded: ExpertInput
    profile: Profile
    kernel: Kernel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiskAnswer:
    """What became of the calls: each expert is in `values` or in `lost`.

    `read_bytes` says what was read for each expert in `values`, 0 if it was in memory.
    The faults are those of another process than this one, which its caller cannot see.
    """

    values: Mapping[int, Floats]  # f32 [n_rows, n_embd] by expert
    read_bytes: Mapping[int, int]  # by expert
    lost: tuple[int, ...] = ()
    minor_faults: int = 0
    major_faults: int = 0

    @property
    def n_hits(self) -> int:
        """Calls that needed no read."""
        return sum(not n_bytes for n_bytes in self.read_bytes.values())


class PendingDisk(Protocol):
    """The calls of one layer under way."""

    def finish(self) -> DiskAnswer:
        """Return all values, blocking; NonFinite as the kernel raises it."""
        ...

    def abandon(self) -> None:
        """Give them up, as fast as can be; nothing is returned. May come after all."""
        ...


class DiskExperts(Protocol):
    """Experts on the local disk, for all lanes."""

    @property
    def n_reads(self) -> int:
        """Experts read."""
        ...

    @property
    def n_read_bytes(self) -> int:
        """Bytes read from the disk."""
        ...

    @property
    def n_hits(self) -> int:
        """Calls that needed no read."""
        ...

    @property
    def n_bytes(self) -> int:
        """Bytes held in memory now, beside the hot set."""
        ...

    @property
    def lost(self) -> Collection[ExpertId]:
        """Experts that could not be read when they were last asked for."""
        ...

    def load(self, expert: ExpertId) -> ExpertWeights:
        """Return an expert's weights, blocking; ModelFileError."""
        ...

    def begin(self, work: DiskWork) -> PendingDisk:
        """Start one layer's calls without waiting for the disk."""
        ...

    def foresee(
        self, layer: int, hidden: Floats, experts: npt.NDArray[np.int64]
    ) -> None:
        """Read ahead what the next layer is likely to need; never waits.

        `hidden` f32 [n_tokens, n_embd] is what this layer's router was asked with, and
        `experts` [n_tokens, top_k] what it chose.
        """
        ...

    def close(self) -> None:
        """End threads and processes of its own; what is under way is given up."""
        ...

    def samples(self) -> str:
        """Return metrics of its own kind, as Prometheus text."""
        ...
