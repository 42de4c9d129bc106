"""One operator against a market that goes by its rules: what a strategy earns.

A game is a small world: what the others hold, how often each expert is asked for, what
the operator could hold. `play` runs epochs of the real price core with a strategy in
place of honest holding, and adds up what the operator gets: its share of the paid rows
at the prices of their epoch, less the ledger's fee, and standby pay. Rows of an expert
are spread evenly over its live replicas; what nobody holds, nobody is paid for.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ledger.prices import ONE_Q16
from p2pmoe.market.pricing.epochs import epoch_at
from p2pmoe.market.pricing.holdings import NOTHING, LeaseShare
from p2pmoe.market.pricing.model import ModelPrices
from p2pmoe.market.pricing.standby import PaperTerms, Replica, draw_up_paper
from tests.support.market_prices import model_of

__all__ = [
    "Game",
    "Strategy",
    "honest",
    "play",
    "random_game",
    "strategies_inside",
    "strategies_outside",
    "wash",
]

EPOCH_US = 600_000_000
_SETTLED = 45  # epochs in which all are honest, until multipliers have arrived
_ROWS = 100_000  # asked for in an epoch, of all experts together
_HOME, _SECOND = "own", "own second"
_TAKEN = "taken"  # a lease that the market itself ends
_TERMS = PaperTerms(network=bytes(32), standby_uc=200_000, salt=b"salt")

Held = dict[str, LeaseShare]  # lease name -> share


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """A world and the operator's devices in it, by lease name."""

    rows: Mapping[int, int]  # asked for in an epoch, by expert
    others: Held
    own: Held
    fee: float = 0.0  # of what is earned
    has_standby: bool = True

    @property
    def experts(self) -> tuple[int, ...]:
        """All experts, in order."""
        return tuple(sorted(self.rows))

    @property
    def own_experts(self) -> tuple[int, ...]:
        """What the operator could hold."""
        return tuple(sorted(set().union(*(s.experts for s in self.own.values()))))


Holds = Callable[[int], Held]  # epoch since the beginning of the strategy -> own leases


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """What the operator holds during an epoch, and when it is looked at.

    wash: rows that it pays itself for, by expert. before: already in force before the
    strategy is compared, as an offer that was never taken. basis: what it is compared
    with, honest holding if None.
    """

    kind: str
    name: str
    during: Holds
    at_look: Holds
    wash: Mapping[int, int] = field(default_factory=dict)
    before: bool = False
    basis: "Strategy | None" = None


def honest(game: Game) -> Strategy:
    """Hold everything, always."""
    return _steady("honest", "honest", game.own)


def _steady(kind: str, name: str, held: Held, **changes: object) -> Strategy:
    values: dict[str, object] = {
        "kind": kind,
        "name": name,
        "during": _always(held),
        "at_look": _always(held),
    }
    return Strategy(**(values | changes))  # type: ignore[arg-type]


def play(game: Game, strategy: Strategy, n_epochs: int) -> float:
    """Return what the operator earns in so many epochs, in micro-credits."""
    model = model_of(game.experts, base_uc=100)
    table = model.table
    earned = 0.0
    seen: Held = {}
    for epoch in range(_SETTLED + n_epochs):
        since = epoch - _SETTLED
        is_on = since >= 0 or strategy.before
        during = strategy.during(max(since, 0)) if is_on else game.own
        seen = _change(model, seen, {**game.others, **during}, epoch)
        wash = strategy.wash if is_on and since >= 0 else {}
        paid, own = _served(game, during)
        if since >= 0:
            earned += _pay(game, table, own, wash)
        counts = [(e, n + wash.get(e, 0)) for e, n in paid.items()]
        span_us = (epoch * EPOCH_US, (epoch + 1) * EPOCH_US)
        model.paid.take(span_us, counts, set(game.experts))
        looked = strategy.at_look(max(since, 0)) if is_on else game.own
        seen = _change(model, seen, {**game.others, **looked}, epoch)
        if since >= 0 and game.has_standby:
            stood = {lease: s for lease, s in looked.items() if during.get(lease) == s}
            earned += _standby(model, epoch, game.others, stood)
        model.look((epoch + 1) * EPOCH_US)
        table = model.table
    return earned


def _change(model: ModelPrices, before: Held, now: Held, epoch: int) -> Held:
    for lease in before.keys() | now.keys():
        share = now.get(lease, NOTHING)
        if share != before.get(lease, NOTHING):
            taken = lease == _TAKEN
            model.holdings.change(
                lease.encode(), share, epoch * EPOCH_US, by_market=taken
            )
    return now


def _served(game: Game, own: Held) -> tuple[dict[int, int], dict[int, float]]:
    """Return rows that are paid for, and the operator's part of them."""
    paid, part = {}, {}
    for expert, n_rows in game.rows.items():
        n_own = sum(expert in share.experts for share in own.values())
        n_all = n_own + sum(expert in share.experts for share in game.others.values())
        if n_all:
            paid[expert] = n_rows
            part[expert] = n_rows * n_own / n_all
    return paid, part


def _pay(
    game: Game,
    table: Mapping[int, int],
    own: Mapping[int, float],
    wash: Mapping[int, int],
) -> float:
    prices = {expert: 100 * price / ONE_Q16 for expert, price in table.items()}
    earned = sum(n_rows * prices[expert] for expert, n_rows in own.items())
    washed = sum(n_rows * prices[expert] for expert, n_rows in wash.items())
    return earned * (1 - game.fee) - washed * game.fee


def _standby(model: ModelPrices, epoch: int, others: Held, own: Held) -> int:
    owners = {lease.encode().ljust(32): lease in own for lease in {**others, **own}}
    replicas = [
        Replica(expert, lease.encode().ljust(32), share.domain)
        for lease, share in {**others, **own}.items()
        for expert in share.experts
    ]
    over = epoch_at(epoch * EPOCH_US, EPOCH_US)
    paper = draw_up_paper(_TERMS, (bytes(32), model), bytes(32), over, replicas)
    if paper is None:
        return 0
    return sum(uc for worker, uc in paper.pay().items() if owners[worker])


# Worlds.


def random_game(seed: int, **changes: object) -> Game:
    """Return a world of 6 to 10 experts, 3 to 6 other domains, and 1 to 3 devices."""
    rng = random.Random(seed)
    experts = list(range(rng.randint(6, 10)))
    rng.shuffle(experts)
    weights = {
        e: 1 / (place + 1) ** rng.uniform(0.3, 0.9) for place, e in enumerate(experts)
    }
    total = sum(weights.values())
    rows = {e: round(_ROWS * weight / total) for e, weight in weights.items()}
    others = {
        f"other {n}": _device(rng, f"domain {n}", experts, rng.randint(2, len(experts)))
        for n in range(rng.randint(3, 6))
    }
    own = {
        f"own {n}": _device(rng, _HOME, experts, rng.randint(2, 4))
        for n in range(rng.randint(1, 3))
    }
    values: dict[str, object] = {"rows": rows, "others": others, "own": own}
    return Game(**(values | changes))  # type: ignore[arg-type]


def _device(rng: random.Random, domain: str, experts: list[int], n: int) -> LeaseShare:
    availability = rng.choice([500, 700, 900, 990])
    return LeaseShare(domain, availability, frozenset(rng.sample(experts, n)))


# Strategies.


def _without(own: Held, gone: frozenset[int]) -> Held:
    kept = {
        lease: LeaseShare(s.domain, s.availability, s.experts - gone)
        for lease, s in own.items()
    }
    return {lease: share for lease, share in kept.items() if share.experts}


def _always(held: Held) -> Holds:
    return lambda _: held


def strategies_inside(game: Game) -> Iterator[Strategy]:
    """Yield what an operator of one domain may try: drop, flicker, split, corner."""
    own, every = game.own, frozenset(game.own_experts)
    nothing: Held = {}
    for expert in sorted(every):
        less, only = _without(own, frozenset({expert})), _without(own, every - {expert})
        yield _steady("drop one", f"drop {expert}", less)
        yield _steady("drop all but one", f"keep {expert}", only)
        yield _steady("corner", f"corner {expert}", only, before=True)
        yield _steady("flicker", f"flicker {expert}", own, at_look=_always(less))
    yield _steady("flicker", "flicker all", own, at_look=_always(nothing))
    for name, kept in (("come and go", nothing), ("take turns", _first(own))):
        turns = _turns(own, kept)
        yield Strategy(kind=name, name=name, during=turns, at_look=turns)
    yield _steady("split", "split", _split(own))
    lazy = {k: LeaseShare(s.domain, 500, s.experts) for k, s in own.items()}
    yield _steady("seem away", "seem away", own, at_look=_always(lazy))


def _turns(held: Held, kept: Held) -> Holds:
    return lambda epoch: held if epoch % 2 else kept


def _first(own: Held) -> Held:
    return dict(list(own.items())[:1])


def _split(own: Held) -> Held:
    """Return the same devices, each expert under an identity of its own."""
    return {
        f"{lease} {expert}": LeaseShare(s.domain, s.availability, frozenset({expert}))
        for lease, s in own.items()
        for expert in s.experts
    }


def strategies_outside(game: Game) -> Iterator[Strategy]:
    """Yield what is not closed: two domains and leaving with one, one moment of all."""
    lease, share = next(iter(game.own.items()))
    copy = LeaseShare(_SECOND, share.availability, share.experts)
    both = {**game.own, "own copy": copy}
    one = {k: s for k, s in both.items() if k != lease}
    leaving = _first_epoch(both, one)
    yield Strategy(
        kind="leave with one of two domains",
        name="leave",
        during=leaving,
        at_look=leaving,
        basis=_steady("both", "both", both),
    )
    flash = LeaseShare(_HOME, share.availability, frozenset(game.experts))
    yield Strategy(
        kind="hold all for one epoch",
        name="flash",
        during=_first_epoch({**game.own, "flash": flash}, game.own),
        at_look=_always(game.own),
        basis=Strategy(
            kind="taken",
            name="taken",
            during=_first_epoch({**game.own, _TAKEN: flash}, game.own),
            at_look=_always(game.own),
        ),
    )


def _first_epoch(first: Held, then: Held) -> Holds:
    return lambda epoch: then if epoch else first


def wash(game: Game) -> Iterator[Strategy]:
    """Yield the operator paying itself for each of its experts."""
    for expert in game.own_experts:
        for part in (0.2, 1.0, 4.0):
            rows = {expert: round(part * _ROWS)}
            yield _steady("wash", f"wash {expert} x {part:g}", game.own, wash=rows)
