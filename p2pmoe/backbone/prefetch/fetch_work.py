"""What a decode thread and the trio side hand each other for one fetch of weights.

The decode thread makes a `FetchWork`, starts it and reads `replies`: for each wanted
expert exactly one, `Came` or `Lacking`, unless it stops the work before. What came is
trusted for nothing yet: its hash is for the decode thread to check, which has nothing
else to do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from queue import SimpleQueue
from typing import TypeAlias

from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.manifest import Manifest
from relay.keys import PeerId

__all__ = ["Came", "FetchReply", "FetchWork", "Fetching", "Lack", "Lacking", "Wanted"]


class Lack(StrEnum):
    """Why weights did not come, or are not taken."""

    LOST = "lost"  # the worker's link or process is gone, or nothing can be sent to it
    BUSY = "busy"  # it has no room for the question
    UNKNOWN = "unknown"  # it has no such shard
    WRONG = "wrong"  # it sent something else
    LATE = "late"  # it took too long


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An expert, and the worker that is asked for its shard."""

    expert: ExpertId
    peer: PeerId


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Came:
    """As many bytes as the shard has, unchecked; `at` on the process's clock."""

    wanted: Wanted
    shard: memoryview
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """An expert that will not come."""

    wanted: Wanted
    why: Lack


FetchReply: TypeAlias = Came | Lacking


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FetchWork:
    """Shards that are asked for at once, in this order."""

    wanted: tuple[Wanted, ...]
    replies: SimpleQueue[FetchReply] = field(default_factory=SimpleQueue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetching:
    """The way to shards of other machines; both callables are for any thread."""

    start: Callable[[FetchWork], None]
    stop: Callable[[FetchWork], None]  # what comes of it later is dropped
    manifest: Manifest
