"""A worker, a relay and a bare socket as processes of their own, for serve's benchmark.

    python -m tests.benchmarks.serve_processes worker|echo [RELAY]
    python -m tests.benchmarks.serve_processes relay|plain

prints where it is and serves until its stdin ends. `worker` computes the pocket model's
experts as the product does, `echo` answers at once with zeros, so that what is left is
the crossing; both print their peer record in hex, and are reached by RELAY alone, or
else on a direct link. `relay` prints its address; it has TLS. `plain` prints a port and
answers as many bytes over a bare socket: what the system itself takes for a crossing.
The backbone's side here dispatches as the product does, with accounts that only count.
"""

import functools
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import trio

from ledger.grant import Grant
from ledger.prices import PriceTable
from ledger.tally import TabTerms
from mobile_worker import messages
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile, result_row_bytes
from mobile_worker.clock import SystemClock
from mobile_worker.expert_id import ExpertId
from mobile_worker.links import Arrived, Node, NodeSettings, open_node
from mobile_worker.links.arrivals import take_each
from mobile_worker.links.events import NodeEvent
from mobile_worker.serve.held import HeldExperts
from mobile_worker.serve.server import ExpertServer
from mobile_worker.servings.allowance import Allowance
from mobile_worker.servings.exposure import Exposure
from mobile_worker.servings.tab import Tab
from mobile_worker.session.identity import Identity
from mobile_worker.session.records import PeerRecord, parse_record
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.dispatcher import Dispatcher, DispatcherParts, SpotChecks
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.handover import Handover
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.scattered import Network
from p2pmoe.backbone.servings import Means
from p2pmoe.weights.manifest import build_manifest
from p2pmoe.weights.model_file import open_model
from relay import RelayConfig, SelfSigned, SigningKey, serve
from relay.endpoint import Endpoint, parse_endpoint
from relay.keys import PeerId
from relay.tokens import Role
from tests.support.backbone import CountingAccounts
from tests.support.backbone_model import POCKET

__all__ = ["DOWN_BYTES", "UP_BYTES", "bench_backbone", "plain_crossing", "record_of"]

NETWORK = PeerId(bytes(32))
UP_BYTES, DOWN_BYTES = 8402, 8308  # 8 KiB with all that is around it on a direct link


@asynccontextmanager
async def bench_backbone(
    records: list[PeerRecord],
    experts: list[set[ExpertId]],
    relay: Endpoint | None = None,
) -> AsyncIterator[Network]:
    """Be a backbone of these workers, each with its experts, on direct links or not."""
    settings = NodeSettings(
        identity=Identity.generate(),
        role=Role.BACKBONE,
        network=NETWORK,
        endpoints=() if relay is None else (relay,),
    )
    fleet = Fleet()
    async with open_node(settings) as node, trio.open_nursery() as nursery:
        dispatcher = Dispatcher(
            DispatcherParts(
                send=node.send,
                fleet=fleet,
                accounts=_BenchAccounts(),
                counters=BackboneCounters(),
                clock=time.monotonic,
                random=Random(1),
                checks=SpotChecks(rate=0.0, newcomer_rate=0.0),
            )
        )
        for record in records:
            node.learn(record)
        fleet.place(
            {
                record.peer_id: (Tier.HUB, held)
                for record, held in zip(records, experts, strict=True)
            }
        )
        for record in records:
            fleet.greeting(record.peer_id, 0.0)
            fleet.greeted(record.peer_id)
            fleet.set_means(record.peer_id, Means.ROOM)
            node.send(record.peer_id, messages.Cancel(request=0))  # opens the link
        nursery.start_soon(_read, node, dispatcher)
        await trio.sleep(1.0)  # links come up
        handover = Handover()
        nursery.start_soon(handover.run)
        yield Network(
            fleet=fleet,
            submit=lambda work: handover.call(
                functools.partial(dispatcher.start, work)
            ),
            report=lambda ticket, passed: None,
        )
        nursery.cancel_scope.cancel()


class _BenchAccounts(CountingAccounts):
    """Accounts that keep nothing."""

    def accept(self, served: object) -> None:
        self.numbered.clear()


async def _read(node: Node, dispatcher: Dispatcher) -> None:
    def take(event: NodeEvent) -> None:
        if isinstance(event, Arrived) and isinstance(event.message, messages.Output):
            dispatcher.on_output(event.peer, event.message, event.n_bytes)

    await take_each(node.arrivals(), take)


async def _serve(role: str, relay: Endpoint | None) -> None:
    identity = Identity.generate()
    settings = NodeSettings(
        identity=identity,
        role=Role.HUB,
        network=NETWORK,
        endpoints=() if relay is None else (relay,),
        listen="127.0.0.1:0" if relay is None else None,
    )
    async with open_node(settings) as node, trio.open_nursery() as nursery:
        answer = _echo(node)
        if role == "worker":
            server = _server(node, identity)
            nursery.start_soon(server.run)
            answer = server.dispatched
        print(node.record.encoded.hex(), flush=True)
        nursery.start_soon(_answer, node, answer)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


async def _answer(node: Node, answer: functools.partial[None]) -> None:
    def take(event: NodeEvent) -> None:
        if isinstance(event, Arrived) and isinstance(event.message, messages.Dispatch):
            answer(event.peer, event.message)

    await take_each(node.arrivals(), take)


def _echo(node: Node):
    def answer(peer: PeerId, dispatch: messages.Dispatch) -> None:
        n_rows = sum(len(call.rows) for call in dispatch.calls)
        width = result_row_bytes(Profile(dispatch.profile), dispatch.n_embd)
        node.send(
            peer,
            messages.Output(
                request=dispatch.request,
                error=0,
                compute_us=0,
                n_rows_total=n_rows,
                results=bytes(n_rows * width),
            ),
        )

    return answer


def _server(node: Node, identity: Identity) -> ExpertServer:
    file = open_model(POCKET)
    manifest = build_manifest(file)
    name = manifest_hash(manifest)
    model = HeldExperts(1 << 30).learn(name, manifest)
    held = HeldExperts(1 << 30)
    with TemporaryDirectory() as folder:
        source = LocalSide(file, LocalOptions(data=Path(folder))).experts
        for expert in model.experts:
            held.hold(model, expert, source.shard(expert))
    prices = PriceTable(network=NETWORK, manifest_hash=name, epoch=1, base_uc=1)
    tabs: dict[PeerId, Tab] = {}

    def find(peer: PeerId, tab_id: bytes):
        if peer not in tabs:
            terms = TabTerms(
                network=NETWORK,
                manifest_hash=name,
                profile=int(Profile.R16),
                worker=identity.peer_id,
                backbone=peer,
                tab=tab_id,
            )
            tabs[peer] = Tab(terms, Exposure())
            grant = Grant(
                network=NETWORK,
                manifest_hash=name,
                worker=identity.peer_id,
                backbone=peer,
                price_table_hash=prices.content_hash,
                ceiling_uc=1 << 50,
                expiry_us=(1 << 62),
                float_leaves=(1 << 32) - 1,
                serial=bytes(8),
            )
            allowance = Allowance(grant=grant, name=grant.content_hash, prices=prices)
            tabs[peer].allow(allowance)
        return tabs[peer], model

    return ExpertServer(NumpyKernel(), find=find, send=node.send, clock=SystemClock())


async def _serve_relay() -> None:
    config = RelayConfig(
        identity=SigningKey.generate(),
        host="127.0.0.1",
        port=0,
        tls=SelfSigned(),
        open=True,
    )
    wall_us = SystemClock().wall_us
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(functools.partial(serve, config, wall_us=wall_us))
        print(relay.endpoint("127.0.0.1"), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


def _serve_plain() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        peer, _ = listener.accept()
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while _receive(peer, UP_BYTES):
                peer.sendall(bytes(DOWN_BYTES))


def plain_crossing(peer: socket.socket) -> None:
    """Send and receive as many bytes as a crossing has."""
    peer.sendall(bytes(UP_BYTES))
    _receive(peer, DOWN_BYTES)


def _receive(peer: socket.socket, n_bytes: int) -> bool:
    while n_bytes:
        part = peer.recv(n_bytes)
        if not part:
            return False
        n_bytes -= len(part)
    return True


def record_of(line: str) -> PeerRecord:
    """Return the record that a worker process printed."""
    return parse_record(bytes.fromhex(line.strip()))


def main(role: str, relay: str = "") -> None:
    """Play the role until stdin ends."""
    if role == "plain":
        _serve_plain()
    elif role == "relay":
        trio.run(_serve_relay)
    else:
        trio.run(_serve, role, parse_endpoint(relay) if relay else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
