"""STANDBY papers behind a node: booked, answered, repeated, of the market alone."""

import pytest
import trio

from ledger.errors import StoreBusy
from ledger.standby import sign_standby, standby_hash
from mobile_worker.messages.audits import Booked, Standby
from p2pmoe.ledgerd.standby_desk import StandbyDesk
from tests.support.ledger_world import Party, World
from tests.support.standby_world import EPOCH_US, TERMS, fill_pot, paper_of, served
from tests.support.trio_test import trio_test

ADA = Party("ada")


class Scene:
    """A desk that runs, and what it sent."""

    def __init__(self, world, store) -> None:
        self.world, self.store = world, store
        self.sent: list[tuple[bytes, Booked]] = []
        self.told = trio.Event()
        self.desk = StandbyDesk(store, world.market.id, self._send)

    def _send(self, peer, message) -> None:
        self.sent.append((peer, message))
        self.told.set()

    def message(self, paper, signer=None) -> Standby:
        raw = paper.pack()
        sign = (signer or self.world.market).sign
        return Standby(paper=raw, signature=sign_standby(raw, sign))

    async def answer(self, message) -> Booked:
        self.told = trio.Event()
        assert self.desk.take(self.world.market.id, message)
        with trio.fail_after(60):
            await self.told.wait()
        peer, answer = self.sent[-1]
        assert peer == self.world.market.id
        assert answer.name == standby_hash(message.paper)
        return answer


@pytest.fixture
def scene(tmp_path):
    world = World()
    with world.open(tmp_path, terms=TERMS) as store:
        served(store, world, ADA)
        fill_pot(store, 10_000)
        world.now_us += EPOCH_US
        yield Scene(world, store)


def running(test):
    """Run a test beside its scene's desk."""

    @trio_test
    async def run(scene):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.desk.run)
            await test(scene)
            nursery.cancel_scope.cancel()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@running
async def test_a_paper_is_booked_and_a_repeat_is_answered_the_same(scene):
    message = scene.message(paper_of(scene.world, ADA))
    for _ in range(2):
        assert (await scene.answer(message)).error == ""


@running
async def test_why_it_is_not_booked_is_said_in_one_line(scene):
    paper = paper_of(scene.world, ADA, pot_uc=100_000)
    poor = (await scene.answer(scene.message(paper))).error
    assert poor.startswith("later: ")
    assert "pot holds" in poor
    forged = scene.message(paper_of(scene.world, ADA), scene.world.ledger)
    nonsense = Standby(paper=b"?", signature=bytes(64))
    for message in (forged, nonsense):
        assert (await scene.answer(message)).error.startswith("signature of")
    assert (await scene.answer(scene.message(paper_of(scene.world, ADA)))).error == ""


@trio_test
async def test_the_operator_reads_what_to_do_about_it(scene, caplog):
    paper = paper_of(scene.world, ADA, pot_uc=100_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.desk.run)
        await scene.answer(scene.message(paper))
        nursery.cancel_scope.cancel()
    (line,) = [text for text in caplog.messages if "not booked" in text]
    assert "pot holds" in line
    assert "`p2pmoe ledger policy set --standby`" in line


@running
async def test_a_fault_of_ours_ends_nothing_and_may_go_away(scene):
    works = scene.store.book_standby
    message = scene.message(paper_of(scene.world, ADA))
    for fault, told in (
        (ZeroDivisionError(), "see its log"),
        (StoreBusy("waited long"), "waited long"),
    ):

        def fail(*_: object, fault: Exception = fault) -> None:
            raise fault

        scene.store.book_standby = fail
        answer = await scene.answer(message)
        assert answer.error.startswith("later: ")
        assert told in answer.error
    scene.store.book_standby = works
    assert (await scene.answer(message)).error == ""


@running
async def test_nobody_else_is_heard(scene):
    message = scene.message(paper_of(scene.world, ADA))
    assert scene.desk.take(scene.world.backbone.id, message)
    assert not scene.desk.take(scene.world.market.id, Booked(name=bytes(32), error=""))
    await scene.answer(scene.message(paper_of(scene.world, ADA, pot_uc=7)))
    assert len(scene.sent) == 1


def test_what_finds_no_room_is_dropped(scene):
    message = scene.message(paper_of(scene.world, ADA))
    for _ in range(50):
        assert scene.desk.take(scene.world.market.id, message)
    assert scene.sent == []
