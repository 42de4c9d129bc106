"""A backbone's network side, running: what decode threads reach remote experts by.

Decode threads never await: what they hand over goes onto the event loop's queue of
calls, in order. Whoever leaves the context ends the network side; open dispatches are
cancelled by those who made them, before.
"""

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from p2pmoe.backbone.joining import Joined, Joining, join
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
    token = trio.lowlevel.current_trio_token()
    joined = join(joining)
    await joined.bookkeeper.restore()
    dispatcher = joined.dispatcher
    network = Network(
        fleet=joined.fleet,
        submit=lambda work: token.run_sync_soon(dispatcher.start, work),
        report=lambda ticket, passed: token.run_sync_soon(
            functools.partial(dispatcher.checked, ticket, passed=passed)
        ),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joined.side.run)
        yield Attached(joined=joined, network=network)
        nursery.cancel_scope.cancel()
