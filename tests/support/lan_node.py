"""A node on a test host that finds another one on its local network.

    python -m tests.support.lan_node NUMBER PEER_NUMBER RELAY

speaks to the peer through the relay, with `lan` set and no address in its record, and
prints "direct" once it is reached directly; ends when its stdin does.
"""

import sys

import trio

from mobile_worker.links import NodeSettings, PathKind, open_node
from mobile_worker.messages import Cancel
from relay.endpoint import parse_endpoint
from relay.tokens import Role
from tests.support.nodes import identity

__all__ = ["main"]

_PATIENCE_S = 120.0  # seconds are usual


async def main(number: int, peer_number: int, relay: str) -> None:
    """Play the node."""
    settings = NodeSettings(
        identity=identity(number),
        role=Role.WORKER,
        endpoints=(parse_endpoint(relay),),
        lan=True,
    )
    peer = identity(peer_number).peer_id
    async with open_node(settings) as node, trio.open_nursery() as nursery:

        async def drain() -> None:
            async for _ in node.arrivals():
                pass

        nursery.start_soon(drain)
        with trio.fail_after(_PATIENCE_S):
            while node.path(peer) is not PathKind.DIRECT:
                node.send(peer, Cancel(request=1))
                await trio.sleep(0.1)
        print("direct", *node.record.direct_addresses, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
