"""The beacon: what it chooses, that nobody chooses it, that cheating does not pay."""

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.beacon import (
    MAX_OF_FILING,
    NEWCOMER_PASSES,
    TRUSTED_PASSES,
    Beacon,
    beacon_value,
    choose_rows,
    one_in,
    places_of,
    sign_beacon,
    verify_beacon,
    voucher_seed,
)
from ledger.errors import FormatRefused, SignatureRefused
from tests.support.ledger_world import Party

LEDGER = Party("ledger")
BEACON = Beacon(
    network=Party("network").id,
    number=3,
    previous=bytes(32),
    log_size=7,
    log_root=b"r" * 32,
)
SEEDS = st.binary(min_size=32, max_size=32)
PASSES = st.sampled_from([0, NEWCOMER_PASSES - 1, NEWCOMER_PASSES, TRUSTED_PASSES])


def seeds(n: int) -> list[bytes]:
    return [voucher_seed(b"value", number.to_bytes(4)) for number in range(n)]


def test_the_statement_has_one_encoding_and_the_ledgers_signature():
    signature = sign_beacon(BEACON, LEDGER.sign)
    assert BEACON.pack().hex() == (
        "504d424501"
        + BEACON.network.hex()
        + "0000000000000003"
        + "00" * 32
        + "0000000000000007"
        + "72" * 32
    )
    assert verify_beacon(BEACON, signature, LEDGER.id) == beacon_value(signature)


@pytest.mark.parametrize(
    "change", [{"number": 4}, {"log_size": 8}, {"previous": b"p" * 32}]
)
def test_another_statement_has_not_this_signature(change):
    signature = sign_beacon(BEACON, LEDGER.sign)
    with pytest.raises(SignatureRefused):
        verify_beacon(replace(BEACON, **change), signature, LEDGER.id)


@pytest.mark.parametrize(
    "change", [{"network": b""}, {"number": -1}, {"log_size": 1 << 63}]
)
def test_what_is_no_beacon_is_refused(change):
    with pytest.raises(FormatRefused):
        replace(BEACON, **change)


def test_the_rates_are_those_that_are_published():
    tiers = [one_in(passes) for passes in (0, 199, 200, 1_999, 2_000, 1 << 40)]
    assert tiers == [20, 20, 100, 100, 500, 500]


@given(SEEDS, st.integers(1, 5_000), PASSES)
def test_of_so_many_rows_in_a_row_one_is_drawn(seed, n_rows, passes):
    chosen = choose_rows(seed, n_rows, passes)
    step = max(one_in(passes), -(-n_rows // MAX_OF_FILING))
    assert all(0 <= row < n_rows for row in chosen)
    assert n_rows // step <= len(chosen) <= -(-n_rows // step)
    if n_rows // step:
        assert [row // step for row in chosen][: n_rows // step] == list(
            range(n_rows // step)
        )
    assert len(chosen) <= MAX_OF_FILING
    assert chosen or passes >= NEWCOMER_PASSES


@given(SEEDS, st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_a_row_belongs_to_the_leaf_that_computed_it(seed, rows):
    chosen = choose_rows(seed, sum(rows), 0)
    places = places_of(chosen, rows)
    ends = list(accumulate(rows))
    starts = [end - n for end, n in zip(ends, rows, strict=True)]
    for place in places:
        assert any(starts[place] <= row < ends[place] for row in chosen)
    assert len(set(places)) == len(places)
    assert all(
        any(starts[place] <= row < ends[place] for place in places) for row in chosen
    )


def test_nothing_is_drawn_from_nothing():
    assert choose_rows(b"s" * 32, 0, 0) == ()


def test_every_row_is_drawn_equally_often():
    counts = [0] * 300
    for seed in seeds(4_000):
        for row in choose_rows(seed, 300, NEWCOMER_PASSES):
            counts[row] += 1
    assert sum(counts) == 3 * 4_000
    assert all(15 <= count <= 75 for count in counts)  # 40 expected, sigma 6.3


# -- what cheating comes to ----------------------------------------------------
#
# A worker serves N rows in one voucher at a price of 1 a row; a row honestly computed
# costs it `cost`. It cheats on some of the rows, chosen as it likes: none of them costs
# anything, and one drawn takes the whole voucher and what is held back. Rows are drawn
# block by block, one of k in each, so a cheat does best to spread evenly over blocks.


def kept_share(n_cheated: int, n_rows: int, passes: int) -> float:
    """The chance that no cheated row is drawn, at best for the cheat."""
    k = max(one_in(passes), -(-n_rows // MAX_OF_FILING))
    n_full, rest = divmod(n_rows, k)
    if not n_full:  # one part of a block; of a newcomer one row is drawn in any case
        return 1 - n_cheated / (n_rows if passes < NEWCOMER_PASSES else k)
    in_rest = min(float(rest), n_cheated / (n_full + 1))
    of_each = (n_cheated - in_rest) / n_full
    return max(0.0, (1 - in_rest / k) * (1 - of_each / k) ** n_full)


def gain(
    n_cheated: int, n_rows: int, passes: int, *, cost: float, held: float
) -> float:
    """What cheating earns above honest work; `held` is lost with a conviction."""
    kept = kept_share(n_cheated, n_rows, passes)
    honest = n_rows * (1 - cost)
    cheat = kept * n_rows - (n_rows - n_cheated) * cost - (1 - kept) * held
    return cheat - honest


def all_shares(n_rows: int) -> list[int]:
    return sorted({max(1, n_rows * percent // 100) for percent in range(1, 101)})


@pytest.mark.parametrize("cost", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("n_rows", [1, 5, 19, 20, 64, 256, 4_000])
def test_a_newcomer_never_gains_by_cheating(n_rows, cost):
    """Without any holdback: every filing of a newcomer has an audit."""
    for n_cheated in all_shares(n_rows):
        assert gain(n_cheated, n_rows, 0, cost=cost, held=0.0) < 0


@pytest.mark.parametrize(
    ("passes", "n_rows"), [(200, 100), (200, 5_000), (2_000, 500), (2_000, 30_000)]
)
@pytest.mark.parametrize("cost", [0.1, 0.5, 0.9])
def test_nobody_gains_whose_voucher_has_a_block_of_rows(passes, n_rows, cost):
    """Without any holdback, at every share."""
    for n_cheated in all_shares(n_rows):
        assert gain(n_cheated, n_rows, passes, cost=cost, held=0.0) < 0


@pytest.mark.parametrize("passes", [200, 2_000])
@pytest.mark.parametrize("n_rows", [1, 10, 50, 90])
def test_small_vouchers_need_a_holdback_and_this_is_how_much(passes, n_rows):
    """One block of rows' pay: a small part of what was earned until then.

    Who has 200 passes has served some 4,000 rows; who has 2,000, some 184,000. So a
    holdback of 2.5 % is enough from the first day on, and of 0.3 % for the trusted.
    """
    k = one_in(passes)
    served = {200: 4_000, 2_000: 184_000}[passes]
    assert k / served <= {200: 0.025, 2_000: 0.003}[passes]
    for n_cheated in all_shares(n_rows):
        assert gain(n_cheated, n_rows, passes, cost=0.99, held=float(k)) < 0
    assert gain(n_rows, n_rows, passes, cost=0.99, held=0.0) > 0


@pytest.mark.parametrize(("passes", "servings"), [(0, 136), (200, 688), (2_000, 3_451)])
def test_a_full_cheat_is_caught_within_so_many_servings(passes, servings):
    """With 99.9 %, one row each."""
    chance = (1 - 1 / one_in(passes)) ** servings
    assert chance <= 0.001 < (1 - 1 / one_in(passes)) ** (servings - 2)
