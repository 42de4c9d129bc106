"""The rim: files before words, papers until they are booked. The files are real."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from ledger.standby import StandbyPaper, standby_hash
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import market as wire
from mobile_worker.messages.audits import Booked, Paid, Standby
from p2pmoe.market.outgoing import Send
from p2pmoe.market.price import PriceSettings
from p2pmoe.market.pricing import keeper as keeper_module
from p2pmoe.market.pricing.keeper import PriceKeeper
from p2pmoe.market.pricing.memory import PRICES_FILE, read_models
from relay.keys import PeerId
from tests.p2pmoe.market.pricing.test_desk import NAME, World
from tests.support.inline_threads import inline_threads
from tests.support.market_peers import identity_of
from tests.support.trio_test import trio_test

LEDGER = identity_of("ledger").peer_id
FIRST = ExpertId(0, 0)
CREDIT = PriceSettings(standby_uc=1_000_000)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch) -> None:
    inline_threads(monkeypatch)


class WorldClock:
    """Trio's clock, in step with the world's, whose first moment is 100 s."""

    def monotonic(self) -> float:
        return 100.0 + trio.current_time()

    def wall_us(self) -> int:
        return round(self.monotonic() * 1e6)


@dataclass(slots=True)
class Rig:
    world: World
    keeper: PriceKeeper
    sent: list[Send] = field(default_factory=list)

    async def live_to(self, moment: float) -> None:
        """Let time pass, workers renewing and the backbone reporting."""
        book = self.world.book
        while (now := WorldClock().monotonic()) < moment:
            await trio.sleep(min(20.0, moment - now))
            self.world.now = now = WorldClock().monotonic()
            for lease in list(book.leases):
                book.renew(lease.worker, lease.lease_id, now)
            self.world.demand("backbone", NAME)

    def all(self, kind: type, peer: PeerId | None = None) -> list:
        return [
            send.message
            for send in self.sent
            if isinstance(send.message, kind) and peer in (None, send.peer)
        ]


@contextlib.asynccontextmanager
async def rig(
    folder: Path | None, prices: PriceSettings = CREDIT
) -> AsyncIterator[Rig]:
    """Run a keeper over a book with one worker, which holds all."""
    models = {} if folder is None else read_models(folder / PRICES_FILE)
    world = World(prices=prices, models=models)
    sent: list[Send] = []
    keeper = PriceKeeper(
        world.book, WorldClock(), sent.extend, folder=folder, ledger=LEDGER
    )
    world.serve("a", 8)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run)
        yield Rig(world, keeper, sent)
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_a_new_model_is_in_the_file_within_seconds(tmp_path: Path) -> None:
    async with rig(tmp_path):
        await trio.sleep(3)
        assert read_models(tmp_path / PRICES_FILE)[NAME].epoch == 1


@trio_test(autojump=True)
async def test_a_table_is_on_the_disk_before_anybody_is_told(
    tmp_path: Path, monkeypatch
) -> None:
    written: list[int] = []

    def write(path: Path, text: str) -> None:
        written.append(len(here.sent))
        path.write_text(text)

    monkeypatch.setattr(keeper_module, "write_remembered", write)
    async with rig(tmp_path) as here:
        here.world.disturb()
        await here.live_to(605)
        assert written[-1] == 0
        told = here.all(wire.Placement)
        assert told
        assert here.all(wire.Lease, here.world.peer("a"))
        table = read_models(tmp_path / PRICES_FILE)[NAME].table
        assert here.world.book.roster.listings
        for listing in here.world.book.roster.listings.values():
            assert {**dict.fromkeys(table, 1 << 16), **listing.prices.multipliers} == (
                table
            )


@trio_test(autojump=True)
async def test_a_disk_that_refuses_leaves_prices_as_they_were(
    tmp_path: Path, monkeypatch
) -> None:
    is_full = False

    def write(path: Path, text: str) -> None:
        if is_full:
            raise OSError("no space left on device")
        path.write_text(text)

    monkeypatch.setattr(keeper_module, "write_remembered", write)
    async with rig(tmp_path) as here:
        await here.live_to(590)
        here.world.disturb()
        is_full = True
        await here.live_to(700)
        assert not here.all(wire.Placement)
        is_full = False
        await here.live_to(715)
        assert here.all(wire.Placement)


@trio_test(autojump=True)
async def test_a_paper_is_sent_until_it_is_booked_over_a_restart(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path) as here:
        await here.live_to(1205)
        (standby,) = here.all(Standby)
        assert StandbyPaper.parse(standby.paper).epoch == 1
    async with rig(tmp_path) as again:
        await trio.sleep(130)
        assert again.all(Standby, LEDGER) == [standby] * 3
        name = standby_hash(standby.paper)
        again.keeper.said(PeerId(bytes(32)), Booked(name=name, error=""))
        await trio.sleep(60)
        assert len(again.all(Standby)) == 4  # nobody else's word counts
        again.keeper.said(LEDGER, Booked(name=name, error=""))
        await trio.sleep(300)
        assert len(again.all(Standby)) == 4
        assert not list((tmp_path / "standby").iterdir())


@trio_test(autojump=True)
async def test_what_was_paid_is_believed_of_the_ledger_alone(tmp_path: Path) -> None:
    paid = Paid(manifest_hash=NAME, from_us=0, to_us=1, counts=((FIRST, 5),))
    async with rig(tmp_path) as here:
        await trio.sleep(1)
        here.keeper.said(PeerId(bytes(32)), paid)
        assert not here.world.book.prices.models[NAME].paid.units
        here.keeper.said(LEDGER, paid)
        here.keeper.said(LEDGER, paid)
    units = read_models(tmp_path / PRICES_FILE)[NAME].paid.units  # written at the end
    assert units == {FIRST.packed: 5 * 256}


@trio_test(autojump=True)
async def test_without_a_folder_nothing_is_kept_but_told() -> None:
    async with rig(None) as here:
        here.world.disturb()
        await here.live_to(605)
        assert here.all(wire.Placement)
