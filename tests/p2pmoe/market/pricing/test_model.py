"""Properties of prices over random worlds: (a) to (c), and what an epoch changes."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.prices import ONE_Q16
from p2pmoe.market.pricing.model import ModelPrices
from p2pmoe.market.pricing.scarcity import MAX_MULTIPLIER, MIN_MULTIPLIER, STEP_PARTS
from tests.support.market_prices import EXPERTS, hold, model_of, share_of

EPOCH_US = 600_000_000
SEEDS = st.integers(0, 1 << 32)


def tell(model: ModelPrices, rng: random.Random) -> None:
    """Have random leases change and random rows be paid for."""
    for lease in range(rng.randrange(8)):
        experts = rng.sample(EXPERTS, rng.randrange(len(EXPERTS) + 1))
        share = share_of(
            f"domain {rng.randrange(4)}",
            *experts,
            availability=rng.choice([500, 700, 900]),
        )
        by_market = rng.random() < 0.3
        hold(model.holdings, f"{lease}", share, model.as_of_us, by_market=by_market)
    counted_to_us = model.paid.counted_to_us
    counts = [(e, int(rng.paretovariate(0.5)) % 100_000) for e in EXPERTS]
    model.paid.take((counted_to_us, counted_to_us + 1), counts, set(EXPERTS))


def epochs(seed: int, n: int = 12):
    """Yield a model before and after each look: (rows before, moved, model)."""
    rng, model = random.Random(seed), model_of()
    for epoch in range(1, n + 1):
        tell(model, rng)
        before = model.rows
        yield before, model.look(epoch * EPOCH_US), model


@given(SEEDS)
@settings(max_examples=60)
def test_a_multipliers_are_bounded_and_move_slowly(seed: int) -> None:
    for before, _, model in epochs(seed):
        for expert, row in model.rows.items():
            was = before[expert].multiplier
            assert MIN_MULTIPLIER <= row.multiplier <= MAX_MULTIPLIER
            assert abs(row.multiplier - was) * STEP_PARTS <= was


@given(SEEDS)
@settings(max_examples=60)
def test_b_a_mean_paid_row_costs_the_base_price_at_most(seed: int) -> None:
    """Exactly so in a new table, within a hundredth in one that stays."""
    for _, is_new, model in epochs(seed):
        units = model.paid.units
        if not (total := sum(units.values())):
            continue
        spent = sum(units.get(e, 0) * price for e, price in model.table.items())
        assert spent <= total * ONE_Q16 * (1.0 if is_new else 1.0101)
        held = [row for row in model.rows.values() if row.coverage.counted]
        mean = sum(row.price for row in held) / len(held) if held else 0.0
        if is_new:  # it costs just that, unless what is held costs it on average
            assert max(spent / total, mean) >= ONE_Q16 - 2


@given(SEEDS)
@settings(max_examples=60)
def test_c_the_rarest_is_paid_most(seed: int) -> None:
    """Of experts in equal demand, once multipliers have arrived."""
    rng, model = random.Random(seed), model_of()
    for lease in range(rng.randrange(1, 12)):
        experts = rng.sample(EXPERTS, rng.randrange(1, len(EXPERTS) + 1))
        hold(model.holdings, f"{lease}", share_of(f"domain {lease}", *experts))
    for epoch in range(1, 60):
        model.look(epoch * EPOCH_US)
    rows = sorted(model.rows.values(), key=lambda row: row.coverage.counted)
    for rarer, other in pairwise(rows):
        least, most = rarer.coverage.counted, other.coverage.counted
        if least < most and most > 500 and least < 8_000:
            assert rarer.price > other.price
        else:  # below a half and above four times the target all is the same
            assert rarer.price == other.price


def test_an_unchanged_world_keeps_its_table() -> None:
    model = model_of()
    hold(model.holdings, "a", share_of("home", *EXPERTS[:4]))
    looks = [model.look(epoch * EPOCH_US) for epoch in range(1, 60)]
    # Both kinds rise by a twentieth, from 1 to 1.49 and to 2: they part after 9 epochs.
    assert looks.index(True) == 9
    assert not any(looks[20:])
    assert {row.multiplier for row in model.rows.values()} == {2 * ONE_Q16, 97695}


def test_a_small_change_keeps_the_table_and_a_larger_one_does_not() -> None:
    model = model_of()
    for domain in range(8):
        hold(model.holdings, f"{domain}", share_of(f"{domain}", *EXPERTS))
    for epoch in range(1, 60):
        model.look(epoch * EPOCH_US)
    table = model.table
    less = share_of("0", *EXPERTS, availability=700)
    hold(model.holdings, "0", less, by_market=True)
    assert not model.look(60 * EPOCH_US)
    assert model.table == table
    gone = share_of("1", *EXPERTS[1:])
    hold(model.holdings, "1", gone, by_market=True)
    assert model.look(61 * EPOCH_US)
    assert model.table[EXPERTS[0]] > table[EXPERTS[0]]


def test_demand_that_moves_draws_up_a_new_table() -> None:
    """Though no multiplier moves: the mean row would cost too much else."""
    model = model_of()
    for lease in ("a", "b", "c"):
        hold(model.holdings, lease, share_of(lease, *EXPERTS[4:]))
    model.paid.take((0, 1), [(e, 1000) for e in EXPERTS], set(EXPERTS))
    for epoch in range(1, 40):
        model.look(epoch * EPOCH_US)
    assert not model.look(40 * EPOCH_US)
    model.paid.take((1, 2), [(EXPERTS[0], 10**6)], set(EXPERTS))
    assert model.look(41 * EPOCH_US)
    assert model.table[EXPERTS[0]] == pytest.approx(ONE_Q16, rel=0.05)
