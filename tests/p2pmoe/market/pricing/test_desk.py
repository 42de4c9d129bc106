"""The desk over a real book: who is told which prices, and when."""

from dataclasses import replace

import pytest

from ledger.prices import ONE_Q16, PriceTable
from ledger.standby import StandbyPaper
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import market as wire
from mobile_worker.messages.audits import Paid
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.market.price import PriceSettings
from p2pmoe.market.pricing import desk as desk_module
from p2pmoe.market.pricing.desk import Judgement
from p2pmoe.market.pricing.memory import encode_models, parse_models
from tests.support.market_book import BookWorld, of_type
from tests.support.market_peers import make_manifest

MODEL = make_manifest()
NAME = manifest_hash(MODEL)
EPOCH_S = 600
FIRST = ExpertId(0, 0)
CREDIT = PriceSettings(standby_uc=1_000_000)


class World(BookWorld):
    """A book whose workers renew, count, and have passed their checks."""

    def __init__(self, *, judged: bool = True, **changes) -> None:
        super().__init__(**changes)
        self.book.prices.synchronise(self.wall_us)
        if judged:
            self.book.prices.judgement = Judgement(proven=lambda *_: True)
        self.notice("backbone", MODEL)
        self.demand("backbone", NAME)

    def serve(self, name: str, slots: int, domain: str = "") -> wire.Lease:
        self.offer(name, slots, domain=domain or name)
        self.after(1)
        self.held(name, self.lease(name))
        return self.lease(name)

    def epochs(self, n: int = 1):
        """Live through epochs, workers renewing; return the last papers."""
        papers = None
        for _ in range(n):
            self.live_to((self.now // EPOCH_S + 1) * EPOCH_S)
            papers = self.turn_prices(0)
        return papers

    def live_to(self, end: float) -> None:
        while self.now < end:
            self.after(min(25.0, end - self.now))
            for lease in list(self.book.leases):
                self.take(self.book.renew(lease.worker, lease.lease_id, self.now))
            self.demand("backbone", NAME)

    def table(self, name: str = "") -> PriceTable:
        """Return the table told last to a worker, or to the backbone."""
        if name:
            return PriceTable.parse(self.lease(name).price_table)
        return PriceTable.parse(of_type(self.sent, wire.Placement)[-1].price_table)

    def disturb(self) -> None:
        """Have a multiplier be far from where it belongs: prices move at once."""
        rows = self.book.prices.models[NAME].rows
        rows[FIRST.packed] = replace(rows[FIRST.packed], multiplier=2 * ONE_Q16)

    def pay(self, *counts, minute: int = 0) -> None:
        span = (minute * 60_000_000, (minute + 1) * 60_000_000)
        self.book.prices.paid(
            Paid(manifest_hash=NAME, from_us=span[0], to_us=span[1], counts=counts)
        )


def test_a_new_model_costs_the_base_price() -> None:
    world = World(prices=PriceSettings(base_uc=7))
    assert dict(world.table().multipliers) == {}
    assert (world.table().base_uc, world.table().epoch) == (7, 1)


def test_an_epoch_brings_one_table_to_everybody() -> None:
    world = World()
    world.serve("a", 4)
    world.epochs(12)  # all rise alike, until what is held has arrived
    table = world.table()
    assert table == world.table("a")
    assert table.epoch == 12
    held = {expert.packed for expert in world.lease("a").experts}
    prices = {p: table.unit_price(p >> 16, p & 0xFFFF) for p in held}
    scarce = {
        e.expert.packed: table.unit_price(e.expert.layer, e.expert.index)
        for e in MODEL.experts
        if e.expert.packed not in held
    }
    assert max(prices.values()) < min(scarce.values())


def test_workers_are_told_before_the_backbone_and_with_their_next_renewal() -> None:
    world = World()
    lease = world.serve("a", 4)
    world.epochs(1)
    world.disturb()
    del world.sent[:]
    world.epochs(1)
    kinds = [type(s.message) for s in world.sent if s.message.TYPE != wire.Held.TYPE]
    told = [k for k in kinds if k in (wire.Lease, wire.Placement)]
    assert told[-2:] == [wire.Lease, wire.Placement]
    peer = world.peer("a")
    world.now += 30
    assert world.book.renew(peer, lease.lease, world.now)  # the first may be lost
    world.now += 30
    assert not world.book.renew(peer, lease.lease, world.now)


def test_prices_follow_what_was_paid_for_and_reports_do_not_move_them() -> None:
    world, other = World(), World()
    for each in (world, other):
        for name in ("a", "b"):
            each.serve(name, 8)
    world.demand("backbone", NAME, counts=((FIRST, 10**6),))
    world.epochs(3)
    other.epochs(3)
    assert world.table() == other.table()
    for minute in range(50):
        other.pay((FIRST, 10**6), minute=minute)
    other.epochs(3)
    units = other.book.prices.models[NAME].paid.units
    assert units.keys() == {FIRST.packed}
    assert other.table().unit_price(0, 0) == pytest.approx(100, abs=1)


def test_of_an_unknown_model_nothing_is_kept() -> None:
    world = World()
    world.book.prices.paid(
        Paid(manifest_hash=bytes(32), from_us=0, to_us=1, counts=((FIRST, 1),))
    )
    assert world.book.prices.models.keys() == {NAME}


def test_what_is_not_adopted_is_not_told() -> None:
    world = World()
    world.serve("a", 4)
    world.epochs(1)
    before = world.table()
    world.disturb()
    world.live_to(2 * EPOCH_S)
    assert world.book.prices.turn(world.now, world.wall_us) is not None
    world.notice("backbone", MODEL, sequence=2)
    world.notice("other", MODEL)
    told = of_type(world.sent, wire.Placement)[-2:]
    assert {PriceTable.parse(each.price_table) for each in told} == {before}
    world.take(world.book.adopt_prices(world.now))
    assert world.table() != before
    assert not world.book.adopt_prices(world.now)


def test_all_backbones_of_a_model_have_its_prices() -> None:
    world = World()
    world.notice("other", MODEL)
    world.serve("a", 12)
    world.disturb()
    world.epochs(1)
    assert world.table().multipliers
    for name in ("backbone", "other"):
        placement = of_type(world.sent, wire.Placement, world.peer(name))[-1]
        assert PriceTable.parse(placement.price_table) == world.table()


def test_a_market_that_restarts_goes_on_with_its_table() -> None:
    world = World()
    world.serve("a", 4)
    world.disturb()
    world.epochs(2)
    assert world.table().multipliers
    models = parse_models(encode_models(world.book.prices.models))
    again = World(models=models)
    assert again.table() == world.table()
    dearer = World(models=models, prices=PriceSettings(base_uc=200))
    assert dearer.table().epoch > world.table().epoch
    assert dearer.table().base_uc == 200
    assert dearer.table().multipliers == world.table().multipliers


def test_a_clock_that_is_set_back_uses_no_number_twice() -> None:
    world = World()
    world.serve("a", 4)
    world.disturb()
    world.epochs(2)
    number = world.table().epoch
    world.disturb()
    desk = world.book.prices
    assert desk.turn(world.now, 0) is None
    assert desk.turn(world.now, 200_000_000) is None
    assert desk.turn(world.now + 400, 601_000_000) is not None
    world.take(world.book.adopt_prices(world.now))
    assert world.table().epoch == number + 1


def test_a_clock_that_goes_to_and_fro_moves_no_price_twice() -> None:
    """At an epoch's border, some seconds back and forth: a twentieth, not a third."""
    world = World()
    world.serve("a", 4)
    world.epochs(1)
    desk = world.book.prices

    def multiplier() -> int:
        return desk.models[NAME].rows[FIRST.packed].multiplier

    before = multiplier()
    border_us = world.wall_us
    for _ in range(6):
        assert desk.turn(world.now + 2, border_us - 1_000_000) is None
        assert desk.turn(world.now + 4, border_us + 1_000_000) is None
    assert multiplier() == before
    world.epochs(1)
    assert multiplier() != before


def test_just_after_a_start_or_an_outage_no_price_moves() -> None:
    world = World()
    world.serve("a", 4)
    world.disturb()
    world.now = 560.0
    world.book.relay_is_back(world.now)
    world.book.prices.synchronise(world.wall_us)
    world.book.prices.unsettle()
    assert world.turn_prices(45) == []
    assert world.table().epoch == 1
    world.epochs(1)
    assert world.table().epoch == 2


def test_a_worker_in_doubt_is_no_coverage() -> None:
    world = World()
    world.serve("a", 8)
    doubted = {world.peer("a")}
    world.epochs(1)
    rows = world.book.prices.models[NAME].rows
    assert {row.coverage.counted for row in rows.values()} == {900}
    world.book.prices.judgement.counts = lambda peer: peer not in doubted
    world.epochs(1)
    rows = world.book.prices.models[NAME].rows
    assert {row.coverage.counted for row in rows.values()} == {0}
    doubted.clear()
    world.epochs(1)
    rows = world.book.prices.models[NAME].rows
    assert {row.coverage.counted for row in rows.values()} == {900}


def test_d_dropping_raises_no_price_while_the_domain_stays() -> None:
    """For as long as it had been held: beside a market in which nobody drops."""
    world, honest = World(), World()
    for each in (world, honest):
        each.serve("a", 4, domain="home")
        each.serve("b", 4, domain="home")
        each.epochs(4)
        each.disturb()
    lease = world.lease("b")
    dropped = wire.Release(lease=lease.lease, experts=lease.experts[:2], reason="")
    world.take(world.book.release(world.peer("b"), dropped, world.now))
    world.epochs(3)
    honest.epochs(3)
    assert world.table() == honest.table()
    assert world.table().multipliers


def test_a_lease_that_the_market_takes_is_not_held_against_its_worker() -> None:
    world = World()
    world.serve("a", 4, domain="home")
    world.serve("b", 4, domain="home")
    world.epochs(1)
    world.take(world.book.revoke_worker(world.peer("b"), "", world.now))
    world.epochs(1)
    drops = world.book.prices.models[NAME].holdings.drops
    assert not len(drops)


def test_replicas_held_throughout_are_paid_for_standing_by() -> None:
    world = World(prices=CREDIT)
    world.serve("a", 8)
    assert world.epochs(1) == []  # it began before the market did
    (signed,) = world.epochs(1)
    paper = StandbyPaper.parse(signed.raw)
    assert (paper.epoch, paper.from_us, paper.pot_uc) == (1, 600_000_000, 1_000_000)
    assert paper.pay() == {world.peer("a"): 500_000}  # one of two replicas wanted
    late = world.serve("late", 8)
    assert late.experts
    (signed,) = world.epochs(1)
    assert world.peer("late") not in StandbyPaper.parse(signed.raw).pay()
    (signed,) = world.epochs(1)
    assert StandbyPaper.parse(signed.raw).pay().keys() == {
        world.peer("a"),
        world.peer("late"),
    }


def test_whoever_has_not_passed_a_check_is_not_paid() -> None:
    world = World(prices=CREDIT, judged=False)
    world.book.prices.judgement = Judgement()
    world.serve("a", 8)
    assert world.epochs(3) == []


def test_by_default_nothing_is_paid_for_standing_by() -> None:
    world = World()
    world.serve("a", 8)
    assert world.epochs(3) == []


def test_a_model_that_a_stranger_lists_takes_nothing_of_the_pot() -> None:
    """It passes its own canaries, and holds its own experts: nobody pays for it."""
    world = World(prices=CREDIT)
    world.serve("a", 8)
    strange = make_manifest(n_layers=1, n_experts=1, name="strange")
    world.notice("stranger", strange)
    for listing in world.book.roster.listings.values():
        listing.heard_at = 1e6  # both are there all the time
    world.serve("mallory", 40)
    for lease in list(world.book.leases.of_worker(world.peer("mallory"))):
        held = wire.Held(lease=lease.lease_id, experts=tuple(lease.experts))
        world.take(world.book.held(world.peer("mallory"), held, world.now))
    assert len(world.book.leases.of_worker(world.peer("mallory"))) == 2
    world.epochs(1)
    world.pay((FIRST, 100), minute=1)
    (signed,) = world.epochs(1)
    paper = StandbyPaper.parse(signed.raw)
    assert (paper.manifest_hash, paper.pot_uc) == (NAME, 1_000_000)
    theirs = Paid(
        manifest_hash=manifest_hash(strange),
        from_us=0,
        to_us=60_000_000,
        counts=((ExpertId(0, 0), 100),),
    )
    world.book.prices.paid(theirs)  # whoever pays itself gets a part, for the fee
    papers = [StandbyPaper.parse(each.raw) for each in world.epochs(1)]
    assert sum(paper.pot_uc for paper in papers) <= 1_000_000
    assert len(papers) == 2
    assert len(world.book.roster.listings) == 2


def test_an_epoch_that_was_slept_through_is_not_paid() -> None:
    world = World(prices=CREDIT)
    world.serve("a", 8)
    world.epochs(1)
    world.now += 3 * EPOCH_S
    assert world.turn_prices(0) == []


def test_models_that_nobody_lists_are_forgotten_in_the_end(monkeypatch) -> None:
    monkeypatch.setattr(desk_module, "_MAX_ROWS", 20)
    world = World()
    for n in range(3):
        world.book.prices.open(bytes([n]) * 32, range(8))
    assert world.book.prices.models.keys() == {NAME, b"\2" * 32}
    flat = world.book.prices.open(NAME, ())
    assert flat.multipliers == {}
    assert ONE_Q16 == 1 << 16
