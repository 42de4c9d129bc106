"""One worker, two backbones, two models: neither can touch what is the other's."""

import copy
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mobile_worker import messages
from mobile_worker.links.node import NodeSettings
from mobile_worker.messages import OutputError
from mobile_worker.session.identity import Identity
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.market.book import Book
from p2pmoe.market.errors import NoticeRefused
from p2pmoe.market.service import MarketService, ServiceSettings
from relay.keys import PeerId
from relay.tokens import Role
from tests.support.inline_threads import inline_threads
from tests.support.market_book import BookWorld, of_type
from tests.support.market_peers import identity_of, make_manifest, notice_of
from tests.support.money import Money
from tests.support.nodes import until
from tests.support.small_model import small_model
from tests.support.trio_test import trio_test
from tests.support.worker_stage import Party, RunningWorker, Stage, open_stage


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


@dataclasses.dataclass
class Two:
    """Two views of one stage: each has a backbone, a model, money and a lease."""

    first: Stage
    second: Stage
    running: RunningWorker

    @property
    def worker(self) -> PeerId:
        return self.running.started[0].peer_id

    async def tab_of(self, stage: Stage) -> bytes:
        """Greet as this backbone; return the tab that it is given."""
        stage.hello(self.worker)
        return (await stage.backbone.hear(messages.Hello)).tab

    async def answered(self, stage: Stage, **changes: object) -> int:
        """Dispatch as this backbone; return the error of the answer."""
        dispatch = stage.model.dispatch(0, **changes)
        return (await stage.ask(self.worker, dispatch)).error


@asynccontextmanager
async def two_backbones(folder: Path) -> AsyncIterator[Two]:
    """Run a worker with a lease of each."""
    async with open_stage(folder) as first:
        second = copy.copy(first)
        second.model = small_model("other")
        money = first.money
        second.money = Money(
            network=money.network,
            worker=money.worker,
            backbone=Identity.generate(),
            market=money.market,
            ledger=money.ledger,
            manifest_hash=second.model.name,
        )
        second.prices = second.money.prices()
        second.lease_id = b"lease-02"
        first.given |= second.model.by_digest
        settings = NodeSettings(identity=second.money.backbone, role=Role.BACKBONE)
        async with first.network.open_node(settings, clock=first.clock) as node:
            second.backbone = Party(node, second.backbone_answers)
            first.nursery.start_soon(second.backbone.run)
            async with first.worker() as running:
                worker = await first.held()
                second.send_lease(worker)
                await until(lambda: running.facts[-1].n_held == 16, within_s=60)
                yield Two(first, second, running)


@trio_test(autojump=True)
async def test_each_is_served_with_its_own_model_on_its_own_tab(tmp_path: Path) -> None:
    async with two_backbones(tmp_path) as two:
        tabs = [await two.tab_of(stage) for stage in (two.first, two.second)]
        assert tabs[0] != tabs[1]
        for stage in (two.first, two.second):
            stage.grant(two.worker)
        answers = [
            await stage.ask(two.worker, stage.model.dispatch(0, tab=tab))
            for stage, tab in zip((two.first, two.second), tabs, strict=True)
        ]
        assert [answer.error for answer in answers] == [0, 0]
        assert answers[0].results != answers[1].results


@trio_test(autojump=True)
async def test_no_backbone_is_served_on_the_others_tab_or_model(tmp_path: Path) -> None:
    async with two_backbones(tmp_path) as two:
        tab = await two.tab_of(two.first)
        two.first.grant(two.worker)
        assert await two.answered(two.first, tab=tab) == OutputError.OK
        # The other one names the first one's tab, then its model.
        assert await two.answered(two.second, tab=tab) == OutputError.NO_GRANT
        two.second.hello(two.worker, manifest_hash=two.first.model.name)
        refused = await two.second.backbone.hear(messages.Refused)
        assert refused.reason == "no lease for this model"
        # What it accepts or grants on it is nobody's money.
        two.second.accept(two.worker, tab, (0, 1))
        await trio.sleep(1)
        assert two.running.facts[-1].accepted == 0
        two.first.accept(two.worker, tab, (0, 1))
        await trio.sleep(1)
        assert two.running.facts[-1].accepted == 1


@trio_test(autojump=True)
async def test_one_out_of_credit_costs_the_other_nothing(tmp_path: Path) -> None:
    async with two_backbones(tmp_path) as two:
        tab, poor = await two.tab_of(two.first), await two.tab_of(two.second)
        two.first.grant(two.worker)
        assert await two.answered(two.second, tab=poor) == OutputError.NO_GRANT
        two.second.grant(two.worker, ceiling_uc=1)  # less than one row costs
        assert await two.answered(two.second, tab=poor) == OutputError.NO_GRANT
        assert await two.answered(two.first, tab=tab) == OutputError.OK
        # A grant of the first one's model, handed over by the second, is not its own.
        grant = two.first.money.grant(
            two.first.prices, worker=two.worker, expiry_us=2**60
        )
        raw, signature = two.first.money.signed_grant(grant)
        message = messages.Grant(request=1, grant=raw, signature=signature, error="")
        two.second.backbone.node.send(two.worker, message)
        assert await two.answered(two.second, tab=poor) == OutputError.NO_GRANT


@trio_test(autojump=True)
async def test_the_end_of_one_lease_leaves_the_other(tmp_path: Path) -> None:
    async with two_backbones(tmp_path) as two:
        tab = await two.tab_of(two.first)
        two.first.grant(two.worker)
        release = messages.Release(
            lease=two.second.lease_id, experts=(), reason="the backbone has gone silent"
        )
        two.first.market.node.send(two.worker, release)
        await trio.sleep(1)
        assert two.running.facts[-1].n_held == 8
        assert await two.answered(two.first, tab=tab) == OutputError.OK
        two.second.hello(two.worker)
        await two.second.backbone.hear(messages.Refused)


# The market between two backbones.


def test_the_market_keeps_deployments_of_the_same_manifest_apart() -> None:
    world, manifest = BookWorld(), make_manifest()
    for backbone in ("honest", "copycat"):
        world.notice(backbone, manifest)
    world.offer("worker", 16)
    world.after(1)
    leases = of_type(world.sent, messages.Lease, world.peer("worker"))
    by_backbone = {lease.backbone: lease for lease in leases}
    assert set(by_backbone) == {world.peer("honest"), world.peer("copycat")}
    world.held("worker", by_backbone[world.peer("honest")])
    world.after(1)
    assert world.placement("honest")
    assert not world.placement("copycat")  # nothing is held for it yet


def test_what_one_reports_moves_nothing_of_the_other() -> None:
    world, manifest = BookWorld(), make_manifest()
    world.notice("honest", manifest)
    name = manifest_hash(manifest)
    world.after(1)
    listing = next(iter(world.book.roster.listings.values()))
    before = listing.demand()
    counts = ((manifest.experts[0].expert, 10**9),)
    answer = world.demand("liar", name, counts=counts)
    assert [m.reason for m in of_type(answer, messages.Refused)] == [
        "unknown manifest: send it again"
    ]
    assert listing.demand() == before
    # It lists the same manifest as its own: its demand is of its own deployment.
    world.notice("liar", manifest)
    world.demand("liar", name, counts=counts)
    assert listing.demand() == before
    # And its silence ends its own leases alone.
    world.offer("worker", 16)
    world.after(500)
    world.demand("honest", name)
    world.after(200)
    left = {deployment.backbone for deployment in world.book.roster.listings}
    assert left == {world.peer("honest")}


@trio_test
async def test_a_manifest_with_the_others_name_and_other_bytes_is_another_model() -> (
    None
):
    """One backbone lies about the other's manifest in every way that it can."""
    world, manifest = BookWorld(), make_manifest()
    world.notice("honest", manifest)
    service = service_of(world.book)
    liar = identity_of("liar")
    honest = notice_of(identity_of("honest"), manifest)
    # The other one's notice as it is, and its signature under our own record.
    for lie in (
        honest,
        dataclasses.replace(notice_of(liar, manifest), signature=honest.signature),
    ):
        with pytest.raises(NoticeRefused):
            service._notice(liar.peer_id, lie, 100.0)
    # Its experts with other sizes: another hash, so another deployment.
    lied = dataclasses.replace(
        manifest,
        experts=tuple(
            dataclasses.replace(e, digest=bytes(32)) for e in manifest.experts
        ),
    )
    assert manifest_hash(lied) != manifest_hash(manifest)
    service._notice(liar.peer_id, notice_of(liar, lied), 100.0)
    listings = world.book.roster.listings
    assert len(listings) == 2
    of_honest = next(
        listing
        for deployment, listing in listings.items()
        if deployment.backbone == world.peer("honest")
    )
    assert of_honest.manifest == manifest.encode()
    name = manifest_hash(manifest).hex()
    _, body = world.book.roster.read_manifest(name, 0, 10**6)
    assert body == manifest.encode()


class _Node:
    def send(self, *_: object) -> None:
        raise AssertionError("nothing is sent here")

    def learn(self, _: object) -> None:
        pass


def service_of(book: Book) -> MarketService:
    clock = type("Clock", (), {"monotonic": lambda _: 100.0, "wall_us": lambda _: 0})()
    return MarketService(_Node(), book, clock, ServiceSettings(self_test=None))
