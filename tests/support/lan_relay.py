"""An open relay on a test host: `python -m tests.support.lan_relay HOST:PORT`.

Prints its URL and serves until its stdin ends.
"""

import sys
from functools import partial

import trio

from mobile_worker.clock import SystemClock
from relay import RelayConfig, SelfSigned, SigningKey, serve

__all__ = ["main"]


async def main(address: str) -> None:
    """Serve."""
    host, _, port = address.rpartition(":")
    config = RelayConfig(
        identity=SigningKey.generate(),
        host=host,
        port=int(port),
        tls=SelfSigned(),
        open=True,
    )
    async with trio.open_nursery() as nursery:
        clock = SystemClock()
        relay = await nursery.start(partial(serve, config, wall_us=clock.wall_us))
        print(relay.endpoint(host), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
