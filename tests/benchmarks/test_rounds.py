"""Rounds that other work disturbed are measured again, whatever they found."""

from collections.abc import Iterator

from tests.benchmarks.rounds import Timed, measured_rounds


def told(*rounds: Timed) -> Iterator[Timed]:
    return iter(rounds)


def test_quiet_rounds_all_count():
    ours, theirs = told(Timed(1, 1), Timed(2, 1)), told(Timed(3, 1), Timed(4, 0.98))
    found = measured_rounds([ours.__next__, theirs.__next__], 2)
    assert found == [[1, 2], [3, 4]]


def test_a_disturbed_round_is_measured_again_on_both_sides():
    ours = told(Timed(9, 0.5), Timed(1, 1), Timed(2, 1))
    theirs = told(Timed(8, 1), Timed(3, 1), Timed(4, 1))
    found = measured_rounds([ours.__next__, theirs.__next__], 2)
    assert found == [[1, 2], [3, 4]]


def test_a_busy_machine_ends_it_with_the_least_disturbed():
    ours = told(Timed(1, 0.5), Timed(2, 0.7), Timed(3, 0.6), Timed(4, 0.4))
    assert measured_rounds([ours.__next__], 2) == [[2, 3]]
