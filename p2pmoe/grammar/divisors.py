"""Bounds the divisors of a schema's numbers before a grammar is made of them.

The library finds multiples by an automaton with a state for each remainder, and looks
through all of its states, or all pairs of two automata's, before its own limits begin
to count: `multipleOf` 99999989 takes minutes and gigabytes. So the least common
multiple of all divisors is bounded; zeros at the end of one cost nothing, and powers
of ten have nothing else. Pure.
"""

import json
import math
from decimal import Decimal
from typing import Any

from p2pmoe.grammar.errors import GrammarRefused

__all__ = ["refuse_large_divisors"]

_KEY = "multipleOf"
_MOST = 10_000
_MOST_BEFORE_ZEROS = 25
_MOST_ZEROS = 30  # more are no longer counted


def refuse_large_divisors(schema: str) -> None:
    """Look at every divisor of a schema, which is JSON as text.

    What is no JSON passes: the library says what is wrong with it.

    Raises:
        GrammarRefused: They are too large together.
    """
    if _KEY not in schema:
        return
    try:
        found = _divisors(json.loads(schema))
    except (ValueError, RecursionError):
        return
    whole = before_zeros = 1
    for divisor in found:
        digits, exponent = _digits(divisor)
        before_zeros = math.lcm(before_zeros, digits)
        whole = math.lcm(whole, digits * 10 ** min(max(0, exponent), _MOST_ZEROS))
        if whole > _MOST and before_zeros > _MOST_BEFORE_ZEROS:
            raise GrammarRefused(
                f"the values of {_KEY} are too large together: their least common "
                f"multiple is over {_MOST}"
            )


def _divisors(schema: object) -> list[float]:
    found: list[float] = []
    level = [schema]
    while level:
        item = level.pop()
        if isinstance(item, dict):
            value = item.get(_KEY)
            if isinstance(value, int | float) and 0 < value < math.inf:
                found.append(value)
        level += _children(item)
    return found


def _children(item: Any) -> list[object]:  # noqa: ANN401 - any JSON value
    if isinstance(item, dict):
        return list(item.values())
    return list(item) if isinstance(item, list) else []


def _digits(divisor: float) -> tuple[int, int]:
    """Return the digits before the zeros at the end, and the power of ten."""
    text = f"{Decimal(repr(divisor * 1)):e}".lower()
    digits, _, power = text.partition("e")
    before, _, after = digits.partition(".")
    kept = (before + after).rstrip("0")
    return int(kept), int(power) - len(kept) + 1
