import json

import pytest

from p2pmoe.grammar.divisors import refuse_large_divisors
from p2pmoe.grammar.errors import GrammarRefused


def schema(*divisors: float) -> str:
    cases = [{"type": "number", "multipleOf": divisor} for divisor in divisors]
    return json.dumps({"type": "array", "items": {"anyOf": cases}})


@pytest.mark.parametrize(
    "divisors",
    [(), (1,), (0.01,), (1e-9, 1e9, 25), (360,), (9973,), (2, 3, 5, 7)],
)
def test_usual_divisors_pass(divisors: tuple[float, ...]) -> None:
    refuse_large_divisors(schema(*divisors))


@pytest.mark.parametrize(
    "divisors", [(99_999_999,), (9973, 9967), (97, 89, 83), (51_200_000,), (1.2345678,)]
)
def test_large_ones_are_refused(divisors: tuple[float, ...]) -> None:
    with pytest.raises(GrammarRefused, match="multipleOf"):
        refuse_large_divisors(schema(*divisors))


@pytest.mark.parametrize(
    "text",
    [
        '{"multipleOf": true}',
        '{"multipleOf": 0}',
        '{"multipleOf": -99999999}',
        '{"multipleOf": "99999999"}',
        '{"properties": {"multipleOf": {"type": "integer"}}}',
        '{"multipleOf": 1e-99999}',
        '{"multipleOf": ',
    ],
)
def test_what_is_no_divisor_is_left_to_the_library(text: str) -> None:
    refuse_large_divisors(text)


def test_a_divisor_of_any_size_is_looked_at_soon() -> None:
    refuse_large_divisors('{"multipleOf": 3e99999999}')  # infinite: the library's
    refuse_large_divisors('{"multipleOf": 1e300}')
    with pytest.raises(GrammarRefused):
        refuse_large_divisors('{"multipleOf": %s}' % ("9" * 4000))
