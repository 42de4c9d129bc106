"""A backbone's network side, running: what decode threads reach remote experts by.

Decode threads never await: what they hand over is done on the trio thread, in order.
Whoever leaves the context ends the network side; open dispatches are cancelled by those
who made them, before.
"""

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from p2pmoe.backbone.handover import Handover
from p2pmoe.backbone.joining import Joined, Joining, join
from p2pmoe.backbone.prefetch.fetch_work import Fetching
from p2pmoe.backbone.scattered import Network

__all__ = ["Attached", "attach"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """The parts of the running network side, and the way to remote experts."""

    joined: Joined
    network: Network


@asynccontextmanager
async def attach(joining: Joining) -> AsyncIterator[Attached]:
    """Join, take up what the spool kept, and run the network side.

    Raises:
        ConfigurationError: the network has no market or no ledger.
        LedgerError: the spool's accounts cannot be taken up.
    """
    handover = Handover()
    joined = join(joining)
    await joined.bookkeeper.restore()
    dispatcher, fetcher = joined.dispatcher, joined.fetcher
    network = Network(
        fleet=joined.fleet,
        submit=lambda work: handover.call(functools.partial(dispatcher.start, work)),
        report=lambda ticket, passed: handover.call(
            functools.partial(dispatcher.checked, ticket, passed=passed)
        ),
        fetching=Fetching(
            start=lambda work: handover.call(functools.partial(fetcher.start, work)),
            stop=lambda work: handover.call(functools.partial(fetcher.stop, work)),
            manifest=joining.manifest,
        ),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handover.run)
        nursery.start_soon(joined.side.run)
        nursery.start_soon(joined.arbiter.run, joined.dispatcher)
        yield Attached(joined=joined, network=network)
        nursery.cancel_scope.cancel()
