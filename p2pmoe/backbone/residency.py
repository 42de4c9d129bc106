"""What of the model is in memory, over the life of a service: one task of its own.

Requests are taken before the weights are read, so that a start takes no time and no
memory. Without a network the file is first looked through for damage, in the background
and only until somebody asks: damage found then ends the service. With the first request
memory is used: experts stay as they are called, and the rest of the hot set is read
once that request is answered and it is known which experts are hot. In a network that
is known, and the hot set is read at once. From then on it follows measured use.
"""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

import trio

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.local_side import LocalSide

__all__ = ["Residency", "keep_resident"]

LOOK_INTERVAL_S = 1.0
PATIENCE_S = 10.0  # the first request has the disk for itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """How memory is to be used.

    `asked` is set when the first request comes, `answered` when it has left;
    `only_here` names experts that must not be evicted.
    """

    in_network: bool
    asked: trio.Event
    answered: trio.Event
    only_here: Callable[[], Collection[ExpertId]]
    interval_s: float


async def keep_resident(local: LocalSide, residency: Residency) -> None:
    """Look through, fill, then follow use and keep its record; never returns.

    Cancelling it leaves a thread behind that ends with the expert it reads.

    Raises:
        ModelFileError: the file is damaged, and nobody has asked for anything yet.
    """
    leaving = threading.Event()
    asked = residency.asked
    try:
        if not (residency.in_network or local.is_small):
            await trio.to_thread.run_sync(
                local.look_through,
                lambda: not (asked.is_set() or leaving.is_set()),
                abandon_on_cancel=True,
            )
            await asked.wait()
            with trio.move_on_after(PATIENCE_S):
                await residency.answered.wait()
        while not local.knows_use:  # noqa: ASYNC110 - decode threads measure it
            await trio.sleep(LOOK_INTERVAL_S)
        await trio.to_thread.run_sync(
            local.fill_behind, lambda: not leaving.is_set(), abandon_on_cancel=True
        )
        while True:
            await trio.sleep(residency.interval_s)
            await trio.to_thread.run_sync(local.rebalance, residency.only_here())
            await trio.to_thread.run_sync(local.save)
    finally:
        leaving.set()
