"""Nodes with real sockets, and what tests wait for in their events."""

from collections.abc import Callable

import trio

from mobile_worker.links import Arrived, Node, NodeEvent, NodeSettings
from mobile_worker.session import Identity
from relay import RunningRelay, serve
from relay.endpoint import Endpoint
from relay.greetings import Welcome
from relay.limits import limits_of
from relay.tokens import RateClass, Role
from tests.support.relays import RELAY, tls_config, wall_us

__all__ = [
    "LOCAL",
    "RelayHost",
    "echo",
    "identity",
    "next_arrival",
    "next_event",
    "settings_of",
    "until",
    "welcome_of",
]

LOCAL = "127.0.0.1:0"


def identity(number: int) -> Identity:
    """The same identity for the same number, in every run."""
    return Identity.from_seeds(bytes([number]) * 32, bytes([number + 100]) * 32)


def settings_of(
    number: int | Identity,
    *,
    relay: Endpoint | None = None,
    listen: str | None = None,
    role: Role = Role.BACKBONE,
    **changes: object,
) -> NodeSettings:
    """Settings of a node of the test network."""
    values: dict[str, object] = {
        "identity": number if isinstance(number, Identity) else identity(number),
        "role": role,
        "endpoints": () if relay is None else (relay,),
        "listen": listen,
    }
    return NodeSettings(**(values | changes))


async def next_event(
    node: Node, kind: type[NodeEvent] | None = None, *, within_s: float = 10.0
) -> NodeEvent:
    """Return the next event, or the next of a kind, dropping others."""
    events = node.arrivals()
    with trio.fail_after(within_s):
        while True:
            event = await anext(events)
            if kind is None or isinstance(event, kind):
                return event


async def next_arrival(node: Node, *, within_s: float = 10.0) -> Arrived:
    """Return the next message."""
    event = await next_event(node, Arrived, within_s=within_s)
    assert isinstance(event, Arrived)
    return event


async def until(condition: Callable[[], object], *, within_s: float = 10.0) -> None:
    """Wait until something is so that no event tells."""
    for _ in range(int(within_s / 0.005)):
        if condition():
            return
        await trio.sleep(0.005)
    raise AssertionError(f"not so within {within_s} s")


def welcome_of(descriptor: bytes, rate_class: RateClass = RateClass.HUB) -> Welcome:
    """What a relay says to a node."""
    return Welcome(
        relay_id=RELAY.peer_id,
        session=bytes(16),
        observed_address="192.0.2.7:999",
        limits=limits_of(rate_class),
        map_version=0,
        skew_us=0,
        descriptor=descriptor,
        signature=bytes(64),
    )


class RelayHost:
    """A relay that can go down and come up again on its port."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._port = 0

    async def start(self) -> Endpoint:
        """Start it; its address stays the same."""
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        relay = await self._nursery.start(self._run)
        self._port = relay.port
        return relay.endpoint("127.0.0.1")

    async def stop(self) -> None:
        """Take it down; all its connections end."""
        self._scope.cancel()
        await self._ended.wait()

    async def _run(self, task_status: trio.TaskStatus[RunningRelay]) -> None:
        config = tls_config(port=self._port, drain_s=0.05)
        with self._scope:
            await serve(config, wall_us=wall_us, task_status=task_status)
        self._ended.set()


async def echo(node: Node) -> None:
    """Send each message back to where it came from."""
    async for event in node.arrivals():
        if isinstance(event, Arrived):
            node.send(event.peer, event.message)
