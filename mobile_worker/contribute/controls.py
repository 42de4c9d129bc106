"""What a person may ask of a running worker, by whatever way they ask.

One object for the whole life of a worker, made before it joins. Each wish sets its own
flag and none overwrites another: a pause stays a pause while the worker drains, and a
drain goes on whatever is resumed. Nothing here waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import trio

from mobile_worker.clock import Clock
from mobile_worker.contribute.figures import Figures
from mobile_worker.governor.limits import Limits
from mobile_worker.shards.store import ShardStore
from relay.keys import PeerId

__all__ = ["BY_ITS_USER", "Controls", "Governing"]

BY_ITS_USER = "stopped by its user"


class Governing(Protocol):
    """The part of the governor that a person may ask."""

    @property
    def limits(self) -> Limits:
        """The limits that hold now."""

    def set_limits(self, limits: Limits) -> None:
        """Keep to other limits from now on, and write them down.

        Raises:
            LimitsRefused: they cannot be written; those that held hold on.
        """

    def pause(self, for_s: float | None) -> None:
        """Rest so long, or until it is resumed."""

    def resume(self) -> None:
        """End the user's pause, and override once what else keeps it from working."""


@dataclass(slots=True, kw_only=True)
class Controls:
    """See the module. end: end at once; what is signed is kept and filed later.

    look: have what was wished for acted on now, not at the next tick. store, peer_id:
    once they are known.
    """

    figures: Figures
    governor: Governing
    clock: Clock
    stop: trio.Event
    end: Callable[[], None]
    look: Callable[[], None] = lambda: None
    store: ShardStore | None = None
    peer_id: PeerId | None = None

    def drain(self) -> None:
        """Finish what runs, have it signed and filed, give leases back, and end."""
        self.figures.facts.draining = BY_ITS_USER
        self.stop.set()
