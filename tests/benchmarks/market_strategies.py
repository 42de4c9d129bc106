"""What strategies earn beside honest holding: the largest gain over random worlds.

0 % or less is a strategy that does not pay. Those of one domain must not; nor must
paying oneself at the fee that ADR 49 names; the others are outside of what is closed,
and their gains are what the limits are worth.
"""

import dataclasses
from collections.abc import Iterable

from tests.benchmarks.figures import Figure, figure
from tests.support.market_games import (
    Game,
    Strategy,
    honest,
    play,
    random_game,
    strategies_inside,
    strategies_outside,
    wash,
)

__all__ = ["run"]

_N_WORLDS = 12
_N_EPOCHS = 40
_FEES = (0.0, 0.02, 0.05)
_CLOSED_FEE = 0.05
_ROUNDING = 0.001  # percent


def run() -> list[Figure]:
    """Search; some 80 s."""
    games = [random_game(seed) for seed in range(_N_WORLDS)]
    gains: dict[str, list[float]] = {}
    for game in games:
        for name, gain in _gains(game, strategies_inside(game)).items():
            gains.setdefault(f"one domain: {name}", []).append(gain)
        for name, gain in _gains(game, strategies_outside(game)).items():
            gains.setdefault(f"outside: {name}", []).append(gain)
        for fee in _FEES:
            washing = dataclasses.replace(game, fee=fee)
            gain = max(_gains(washing, wash(washing)).values())
            gains.setdefault(f"wash, fee {fee:.0%}", []).append(gain)
    return [_figure(name, of_worlds) for name, of_worlds in sorted(gains.items())]


def _gains(game: Game, strategies: Iterable[Strategy]) -> dict[str, float]:
    """Return the largest gain in percent by kind of strategy."""
    fair = play(game, honest(game), _N_EPOCHS)
    found: dict[str, float] = {}
    for strategy in strategies:
        beside = fair
        if strategy.basis is not None:
            beside = play(game, strategy.basis, _N_EPOCHS)
        gain = 100 * (play(game, strategy, _N_EPOCHS) / beside - 1)
        kind = strategy.kind
        found[kind] = max(gain, found.get(kind, float("-inf")))
    return found


def _figure(name: str, of_worlds: list[float]) -> Figure:
    """Return the largest gain of all worlds; its range is that of the worlds."""
    is_closed = name.startswith("one") or f"fee {_CLOSED_FEE:.0%}" in name
    made = figure(name, "% gained", of_worlds)
    largest = max(of_worlds)
    if not is_closed:
        return dataclasses.replace(made, ours=largest)
    met = largest <= _ROUNDING
    return dataclasses.replace(made, ours=largest, target=_ROUNDING, met=met)
