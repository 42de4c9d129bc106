"""A DISPATCH of 8 KiB and its OUTPUT between two nodes of one process, and bulk.

Both ends, and with the relay that as well, share one core and one event loop, so these
are costs in Python and not of a network. The baseline is the same bytes there and back
over one bare TCP connection between two trio tasks, for bulk the same bytes one way.
The ceiling of bulk is counted in the processor's time of both ends together: what one
core can carry, whatever else runs; beside it, sealing and opening such pieces alone.
"""

import time
from functools import partial
from typing import TypeAlias

import trio
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mobile_worker.clock import SystemClock
from mobile_worker.links import Arrived, NodeSettings, open_node
from mobile_worker.links.linked_node import LinkedNode
from mobile_worker.messages import (
    Blob,
    CodedTensor,
    Dispatch,
    ExpertCall,
    MessageClass,
    Output,
)
from mobile_worker.session import Identity
from mobile_worker.session.packets import MAX_BULK_PIECE_BYTES
from relay.keys import SigningKey
from relay.server import RelayConfig, serve
from relay.tokens import Role
from tests.benchmarks.figures import Figure, figure

__all__ = ["run"]

_N_EMBD = 7168
_ROUNDS = 5
_TURNS = 400
_BULK_BYTES = 4 << 20
_N_BULK = 20
_N_SEALS = 5000
_CEILING = "bulk ceiling of a core, both ends"
_Rounds: TypeAlias = tuple[list[float], list[float], list[float]]

_DISPATCH = Dispatch(
    request=1,
    tab=bytes(8),
    first_serving=0,
    layer=3,
    deadline_ms=1000,
    price_epoch=0,
    nonce=bytes(8),
    profile=0,
    n_embd=_N_EMBD,
    n_rows=1,
    coded=CodedTensor(codes=bytes(_N_EMBD), scales=bytes(_N_EMBD // 8)),
    floats=None,
    calls=tuple(ExpertCall(index=i, rows=(0,)) for i in range(4)),
)
_OUTPUT = Output(request=1, error=0, compute_us=0, n_rows_total=1, results=bytes(8192))


def run() -> list[Figure]:
    """Measure all figures."""
    bare = trio.run(_bare)
    bare_bulk = trio.run(_bare_bulk)
    direct, direct_bulk, ceiling = trio.run(_direct)
    relayed, relayed_bulk, relayed_ceiling = trio.run(_relayed)
    there_and_back = "8 KiB there and back"
    return [
        figure(f"{there_and_back}, direct", "us", direct, baseline=bare, at_most=1000),
        figure(f"{there_and_back}, relay with TLS", "us", relayed, baseline=bare),
        figure("bulk, direct", "MB/s", direct_bulk, baseline=bare_bulk),
        figure("bulk, relay with TLS", "MB/s", relayed_bulk, baseline=bare_bulk),
        figure(f"{_CEILING}, direct", "MB/core-s", ceiling, baseline=_sealing()),
        figure(f"{_CEILING}, relay with TLS", "MB/core-s", relayed_ceiling),
    ]


async def _bare() -> list[float]:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    one = await trio.open_tcp_stream("127.0.0.1", port)
    other = await listener.accept()

    async def answer() -> None:
        while await _read(other, 8192):
            await other.send_all(bytes(8192))

    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        rounds = []
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            for _ in range(_TURNS):
                await one.send_all(bytes(8192))
                await _read(one, 8192)
            rounds.append((time.perf_counter() - began) / _TURNS * 1e6)
        nursery.cancel_scope.cancel()
    await one.aclose()
    await other.aclose()
    return rounds


async def _bare_bulk() -> list[float]:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    one = await trio.open_tcp_stream("127.0.0.1", port)
    other = await listener.accept()
    rates = []
    async with listener, one, other:
        for _ in range(3):
            began = time.perf_counter()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_read, other, _N_BULK * _BULK_BYTES)
                for _ in range(_N_BULK):
                    await one.send_all(bytes(_BULK_BYTES))
            took_s = time.perf_counter() - began
            rates.append(_N_BULK * _BULK_BYTES / took_s / 1e6)
    return rates


def _sealing() -> list[float]:
    """Return MB a second of the processor's for sealing and opening pieces alone."""
    cipher = AESGCM(bytes(32))
    piece, nonce, head = bytes(MAX_BULK_PIECE_BYTES), bytes(12), bytes(13)
    rates = []
    for _ in range(3):
        began = time.process_time()
        for _ in range(_N_SEALS):
            cipher.decrypt(nonce, cipher.encrypt(nonce, piece, head), head)
        took_s = time.process_time() - began
        rates.append(_N_SEALS * len(piece) / took_s / 1e6)
    return rates


async def _read(stream: trio.SocketStream, n: int) -> bool:
    while n > 0:
        part = await stream.receive_some(n)
        if not part:
            return False
        n -= len(part)
    return True


async def _direct() -> _Rounds:
    near = NodeSettings(identity=Identity.generate(), role=Role.BACKBONE)
    far = NodeSettings(
        identity=Identity.generate(), role=Role.HUB, listen="127.0.0.1:0"
    )
    async with open_node(near) as one, open_node(far) as other:
        one.learn(other.record)
        return await _measure(one, other)


async def _relayed() -> _Rounds:
    config = RelayConfig(
        identity=SigningKey.generate(), host="127.0.0.1", port=0, open=True
    )
    async with trio.open_nursery() as nursery:
        clock = SystemClock()
        relay = await nursery.start(partial(serve, config, wall_us=clock.wall_us))
        endpoints = (relay.endpoint("127.0.0.1"),)
        near = NodeSettings(
            identity=Identity.generate(), role=Role.BACKBONE, endpoints=endpoints
        )
        far = NodeSettings(
            identity=Identity.generate(), role=Role.HUB, endpoints=endpoints
        )
        async with open_node(near) as one, open_node(far) as other:
            found = await _measure(one, other)
        nursery.cancel_scope.cancel()
    return found


async def _measure(one: LinkedNode, other: LinkedNode) -> _Rounds:
    """Return microseconds of turns, bulk by the clock and by the processor's time."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_serve, other)
        rounds: list[float] = []
        bulk: list[float] = []
        ceiling: list[float] = []
        for _ in range(_ROUNDS + 1):
            began = time.perf_counter()
            for _ in range(_TURNS):
                one.send(other.peer_id, _DISPATCH)
                await _next(one)
            rounds.append((time.perf_counter() - began) / _TURNS * 1e6)
        blob = Blob(
            request=1,
            digest=bytes(32),
            offset=0,
            total=0,
            error=0,
            body=bytes(_BULK_BYTES),
        )
        for _ in range(3):
            began, busy = time.perf_counter(), time.process_time()
            for _ in range(_N_BULK):
                one.send(other.peer_id, blob, message_class=MessageClass.BULK)
            one.send(other.peer_id, _DISPATCH, message_class=MessageClass.BULK)
            await _next(one)
            n_bytes = _N_BULK * _BULK_BYTES
            bulk.append(n_bytes / (time.perf_counter() - began) / 1e6)
            ceiling.append(n_bytes / (time.process_time() - busy) / 1e6)
        nursery.cancel_scope.cancel()
    return rounds[1:], bulk, ceiling


async def _next(node: LinkedNode) -> None:
    async for event in node.arrivals():
        if isinstance(event, Arrived):
            return


async def _serve(node: LinkedNode) -> None:
    async for event in node.arrivals():
        if isinstance(event, Arrived) and isinstance(event.message, Dispatch):
            node.send(event.peer, _OUTPUT)
