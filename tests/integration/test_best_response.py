"""A search for strategies that pay: none within the limits that ADR 49 states.

Inside: one operator in one failure domain, and a ledger's fee of at least 5 % of what
is earned. `make bench-market` searches more worlds, and prints what it finds outside.
"""

import dataclasses

import pytest

from tests.support.market_games import (
    honest,
    play,
    random_game,
    strategies_inside,
    wash,
)

N_EPOCHS = 24
ROUNDING = 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_no_strategy_of_one_domain_beats_holding_what_it_can(seed: int) -> None:
    game = random_game(seed)
    fair = play(game, honest(game), N_EPOCHS)
    for strategy in strategies_inside(game):
        earned = play(game, strategy, N_EPOCHS)
        assert earned <= fair * (1 + ROUNDING), strategy.name


@pytest.mark.parametrize("seed", range(4))
def test_f_paying_oneself_loses_the_fee(seed: int) -> None:
    game = dataclasses.replace(random_game(seed), fee=0.05)
    fair = play(game, honest(game), N_EPOCHS)
    for strategy in wash(game):
        assert play(game, strategy, N_EPOCHS) < fair, strategy.name
