"""Offers, leases and placements against the real relay and market processes."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from mobile_worker.links import Arrived, Node, NodeSettings, RelayChanged, open_node
from mobile_worker.messages import market as wire
from mobile_worker.session.identity import Identity
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.market.deployments import sign_manifest
from p2pmoe.network.invite import Invite, read_invite
from relay.keys import PeerId
from relay.tokens import Role
from tests.support.market_peers import SHARD_BYTES, make_manifest
from tests.support.operator_processes import OperatorProcess
from tests.support.ports import reserved_port
from tests.support.trio_test import trio_test

MODEL = make_manifest()
NAME = manifest_hash(MODEL)
ALL = {each.expert for each in MODEL.experts}
WITHIN_S = 60
BACK_WITHIN_S = 120  # after an outage: up to 30 s pass before the next attempt
T = TypeVar("T")


class Peer:
    """A real node and what the market says to it."""

    def __init__(self, node: Node, identity: Identity, market: PeerId) -> None:
        self.node = node
        self.identity = identity
        self._market = market
        self._inbox: list[object] = []

    def send(self, message) -> None:
        self.node.send(self._market, message)

    async def next(self, kind: type[T]) -> T:
        with trio.fail_after(WITHIN_S):
            async for event in self.node.arrivals():
                if isinstance(event, Arrived) and isinstance(event.message, kind):
                    return event.message
        raise AssertionError("the node closed")

    def list_model(self) -> None:
        encoded = MODEL.encode()
        signature = sign_manifest(encoded, self.identity.sign)
        notice = wire.ManifestNotice(
            manifest=encoded,
            signature=signature,
            backbone_record=self.node.record.encoded,
        )
        self.send(notice)
        self.send(wire.Demand(manifest_hash=NAME, counts=(), at_hand=(), has_disk=True))

    def offer(self) -> None:
        self.send(
            wire.Offer(
                record=self.node.record.encoded,
                memory_bytes=len(ALL) * SHARD_BYTES,
                disk_bytes=0,
                rate_macs_s=1,
                up_bytes_s=1,
                down_bytes_s=1,
                device_class=1,
                domain="",
                models=(),
            )
        )

    async def refused(self, message) -> wire.Refused:
        """Say it, again if need be (delivery is at most once), until it is refused."""
        for _ in range(WITHIN_S):
            self.send(message)
            with trio.move_on_after(1):
                return await self.next(wire.Refused)
        raise AssertionError("no answer")

    async def serve_a_lease(self) -> wire.Lease:
        self.offer()
        lease = await self.next(wire.Lease)
        self.send(wire.Held(lease=lease.lease, experts=lease.experts))
        return lease

    async def relay_is_up(self) -> None:
        with trio.fail_after(BACK_WITHIN_S):
            async for event in self.node.arrivals():
                if isinstance(event, RelayChanged) and event.up:
                    return

    async def listed(self) -> None:
        """List the model, again if need be, until the market places it."""
        for _ in range(WITHIN_S):
            self.list_model()
            with trio.move_on_after(1):
                await self.next(wire.Placement)
                return
        raise AssertionError("no answer")

    async def is_covered_now(self) -> bool:
        """List the model once more and look at the answer, if one comes in a second."""
        self.list_model()
        with trio.move_on_after(1):
            placement = await self.next(wire.Placement)
            return {e for h in placement.holders for e in h.experts} == ALL
        return False

    async def covered(self) -> None:
        with trio.fail_after(WITHIN_S):
            while True:
                placement = await self.next(wire.Placement)
                if {e for h in placement.holders for e in h.experts} == ALL:
                    return


@contextlib.asynccontextmanager
async def a_peer(
    invite: Invite, role: Role, self_test: bytes = SELF_TEST_DIGEST
) -> AsyncIterator[Peer]:
    identity = Identity.generate()
    settings = NodeSettings(
        identity=identity,
        role=role,
        endpoints=(invite.relay,),
        token=invite.token,
        network=invite.network,
        self_test=self_test,
    )
    async with open_node(settings) as node:
        assert node.descriptor is not None
        assert node.descriptor.market is not None
        yield Peer(node, identity, node.descriptor.market)


@pytest.fixture
def relay(tmp_path: Path, request) -> Iterator[OperatorProcess]:
    only = getattr(request, "param", ())
    with reserved_port() as port:
        process = OperatorProcess(
            tmp_path,
            *("relay", "--self-signed", "--listen", f"127.0.0.1:{port}"),
            *("--data", str(tmp_path / "net"), *only),
        )
        yield process
        process.kill()


def test_one_process_leases_and_places(relay: OperatorProcess) -> None:
    invite = read_invite(Path(relay.report["invite"]))

    @trio_test
    async def main() -> None:
        async with (
            a_peer(invite, Role.BACKBONE) as backbone,
            a_peer(invite, Role.WORKER) as worker,
        ):
            backbone.list_model()
            lease = await worker.serve_a_lease()
            assert set(lease.experts) == ALL
            assert lease.backbone == backbone.node.peer_id
            await backbone.covered()

    main()


def test_a_worker_with_other_arithmetic_is_refused(relay: OperatorProcess) -> None:
    invite = read_invite(Path(relay.report["invite"]))

    @trio_test
    async def main() -> None:
        async with a_peer(invite, Role.WORKER, self_test=bytes(32)) as worker:
            worker.offer()
            refused = await worker.next(wire.Refused)
            assert "computes other bits" in refused.reason

    main()


@pytest.mark.parametrize("relay", [("--only",)], indirect=True)
def test_a_market_killed_in_the_middle_recovers(
    relay: OperatorProcess, tmp_path: Path
) -> None:
    path = str(relay.report["invite"])
    options = ("market", "--invite", path, "--data", str(tmp_path / "net"))

    async def start() -> OperatorProcess:
        return await trio.to_thread.run_sync(OperatorProcess, tmp_path, *options)

    @trio_test
    async def main() -> None:
        invite = read_invite(Path(path))
        market = await start()
        try:
            async with (
                a_peer(invite, Role.BACKBONE) as backbone,
                a_peer(invite, Role.WORKER) as worker,
            ):
                backbone.list_model()
                first = await worker.serve_a_lease()
                await backbone.covered()
                market.kill()
                market = await start()
                refused = await worker.refused(wire.Renew(lease=first.lease))
                assert "offer again" in refused.reason
                await backbone.listed()
                again = await worker.serve_a_lease()
                assert again.lease == first.lease
                assert set(again.experts) == ALL
                assert again.price_table == first.price_table
                await backbone.covered()
        finally:
            market.kill()

    main()


@pytest.mark.parametrize("relay", [("--only",)], indirect=True)
def test_b28_a_relay_killed_and_started_again_costs_no_lease(
    relay: OperatorProcess, tmp_path: Path
) -> None:
    folder = str(tmp_path / "net")
    port = relay.report["listen"][1]
    invite = read_invite(Path(relay.report["invite"]))
    market = OperatorProcess(
        tmp_path, "market", "--invite", relay.report["invite"], "--data", folder
    )

    def start_again() -> OperatorProcess:
        return OperatorProcess(
            tmp_path,
            *("relay", "--self-signed", "--listen", f"127.0.0.1:{port}"),
            *("--data", folder, "--only"),
        )

    @trio_test
    async def main() -> None:
        second = None
        try:
            async with (
                a_peer(invite, Role.BACKBONE) as backbone,
                a_peer(invite, Role.WORKER) as worker,
            ):
                backbone.list_model()
                lease = await worker.serve_a_lease()
                await backbone.covered()
                relay.kill()
                second = await trio.to_thread.run_sync(start_again)
                await worker.relay_is_up()
                worker.send(wire.Renew(lease=lease.lease))
                await backbone.relay_is_up()
                # Said again, as a backbone does: the worker is still a holder.
                with trio.fail_after(BACK_WITHIN_S):
                    while not await backbone.is_covered_now():
                        pass
        finally:
            if second is not None:
                second.kill()

    try:
        main()
    finally:
        market.kill()
