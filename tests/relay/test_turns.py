"""Calls at the end of a turn."""

from relay.turns import Turn


def test_calls_are_made_in_order_when_the_turn_ends() -> None:
    turn, made = Turn(), []
    turn.begin()
    assert turn.join(lambda: made.append(1))
    assert turn.join(lambda: made.append(2))
    assert made == []
    turn.end()
    assert made == [1, 2]
    turn.end()
    assert made == [1, 2]


def test_nothing_joins_outside_a_turn_nor_what_its_calls_cause() -> None:
    turn, told = Turn(), []
    assert not turn.join(lambda: told.append("never"))
    turn.begin()
    turn.join(lambda: told.append(turn.join(lambda: told.append("never"))))
    turn.end()
    assert told == [False]
