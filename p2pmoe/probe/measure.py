"""Probe a relay: join it as a peer nobody knows, and send frames to oneself.

A frame to oneself goes the whole way (our queue, the relay's buckets and queues, back),
and both ends are on one clock. The key is made for this probe, so that no running peer
of ours is taken for it. Frames are interactive, paced, and ask for a NACK; whatever has
no answer two seconds after the last is lost.
"""

import contextlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from os import urandom
from typing import Final

import trio

from p2pmoe.probe.report import FrameFigures, ProbePlan, RelayReport
from relay.client import ClientSettings, RelayConnection, connect
from relay.endpoint import Endpoint
from relay.errors import ConnectionLost, ProtocolError, RelayError, SendQueueFull
from relay.events import Nacked, Received
from relay.handshake import Credentials
from relay.keys import PeerId, SigningKey
from relay.tokens import Role, parse_token

__all__ = ["probe_relay", "visitor"]

_HEAD: Final = struct.Struct("!Q")  # number
_TTL_MS: Final = 2_000


def visitor(token: bytes, seed: bytes | None = None) -> Credentials:
    """Return credentials of a peer nobody knows, in the role that the token allows."""
    key = SigningKey.from_seed(seed or urandom(32))
    role = Role.CLIENT
    with contextlib.suppress(ProtocolError):  # the relay says what is wrong with it
        role = parse_token(token).role or Role.CLIENT
    return Credentials(peer_id=key.peer_id, sign=key.sign, role=role, token=token)


async def probe_relay(
    endpoint: Endpoint,
    credentials: Credentials,
    plan: ProbePlan,
    *,
    wall_us: Callable[[], int],
    settings: ClientSettings | None = None,
) -> RelayReport:
    """Join the relay and measure it; takes `plan`'s time and at most 2 s more.

    Raises:
        RelayError: it cannot be reached, does not let us in, or is lost meanwhile.
    """
    began = trio.current_time()
    async with connect(
        endpoint, credentials, wall_us=wall_us, settings=settings
    ) as connection:
        joined_s = trio.current_time() - began
        frames = await _exchange(connection, credentials.peer_id, plan)
    certificate = connection.route.certificate
    return RelayReport(
        url=str(endpoint),
        route=connection.route,
        welcome=connection.welcome,
        is_pinned_key=certificate is not None
        and certificate.key == connection.welcome.relay_id,
        joined_s=joined_s,
        frames=frames,
    )


@dataclass(slots=True)
class _Exchange:
    """Frames to ourselves: those sent and what became of them."""

    own: PeerId
    plan: ProbePlan
    figures: FrameFigures
    sent_at: dict[int, float]  # of those without an answer, by number

    @property
    def is_over(self) -> bool:
        sent_all = self.figures.n_sent == self.plan.n_frames
        return sent_all and not self.figures.n_lost

    def frame(self, now: float) -> bytes:
        number = self.figures.n_sent
        self.figures.n_sent += 1
        self.sent_at[number] = now
        head = _HEAD.pack(number)
        return head + bytes(self.plan.frame_bytes - len(head))

    def take(self, event: object, now: float) -> None:
        figures = self.figures
        if isinstance(event, Nacked) and event.destination == self.own:
            left = min(event.count, figures.n_lost)
            figures.dropped[event.reason] = figures.dropped.get(event.reason, 0) + left
        if not isinstance(event, Received) or event.source != self.own:
            return  # another peer's, or the relay's word about something else
        if len(event.payload) != self.plan.frame_bytes:
            return
        (number,) = _HEAD.unpack_from(event.payload)
        sent_at = self.sent_at.pop(number, None)
        if sent_at is not None:
            figures.round_trips_s.append(now - sent_at)
            figures.longest_age_ms = max(figures.longest_age_ms, event.age_ms)


async def _exchange(
    connection: RelayConnection, own: PeerId, plan: ProbePlan
) -> FrameFigures:
    exchange = _Exchange(own=own, plan=plan, figures=FrameFigures(), sent_at={})
    failures: list[RelayError] = []

    async def read() -> None:
        try:
            async for event in connection.events():
                exchange.take(event, trio.current_time())
                if exchange.is_over:
                    break
        except RelayError as exc:
            failures.append(exc)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await _send(connection, exchange)
        await trio.sleep(_TTL_MS / 1000)
        nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return exchange.figures


async def _send(connection: RelayConnection, exchange: _Exchange) -> None:
    plan = exchange.plan
    began = trio.current_time()
    for number in range(plan.n_frames):
        await trio.sleep_until(began + number / plan.frames_s)
        payload = exchange.frame(trio.current_time())
        while True:
            try:
                connection.send(exchange.own, payload, ttl_ms=_TTL_MS)
                break
            except SendQueueFull:
                with contextlib.suppress(ConnectionLost):  # raised again by `send`
                    await connection.wait_writable()
            except ConnectionLost:
                return  # the reader reports it
