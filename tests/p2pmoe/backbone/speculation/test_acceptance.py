"""Acceptance by depth and by match length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.speculation.acceptance import (
    Calibration,
    DepthAcceptance,
    MatchAcceptance,
)


def test_beliefs_come_first() -> None:
    known = DepthAcceptance(0.5, 4.0, 8)
    accepted, drafted = known.chain(3)
    assert accepted == pytest.approx([0.5, 0.25, 0.125])
    assert drafted == [1.0, 1.0, 1.0]
    hopeful, _ = known.chain(3, hopeful=True)
    assert all(a > b for a, b in zip(hopeful, accepted, strict=True))


def test_drafts_that_are_all_right_or_all_wrong_are_learned() -> None:
    known = DepthAcceptance(0.5, 4.0, 8)
    for _ in range(60):
        known.observe(4, 4, 4)
    assert known.chain(8)[0][7] > 0.6  # deeper than was seen
    for _ in range(120):
        known.observe(4, 4, 0)
    assert known.chain(1)[0][0] < 0.1


def test_a_draft_that_ends_early_costs_fewer_rows() -> None:
    known = DepthAcceptance(0.5, 4.0, 8)
    for _ in range(100):
        known.observe(4, 2, 2)
    accepted, drafted = known.chain(4)
    assert drafted[1] > 0.95
    assert drafted[3] < 0.1
    assert accepted[1] > 0.8
    assert accepted[3] < 0.2


def test_doubt_and_rest_bring_belief_back() -> None:
    known = DepthAcceptance(0.5, 4.0, 8)
    for _ in range(50):
        known.observe(1, 1, 0)
    low = known.mean
    known.rest()
    known.doubt(0.1)
    assert low < known.mean < 0.5


def test_longer_matches_are_likelier() -> None:
    known = MatchAcceptance()
    assert known.chance(0) == 0.0
    chances = [known.chance(match) for match in range(2, 20)]
    assert chances == sorted(chances)
    (one, two), drafted = known.chain((2,), 2)
    assert two == pytest.approx(one * known.chance(3))
    assert drafted == [1.0, 1.0]


def test_copies_are_learned_without_being_made() -> None:
    known = MatchAcceptance()
    for _ in range(40):
        known.observe(2, 0, 0, was_guessed=False)
        known.observe(6, 0, 0, was_guessed=True)
    assert known.chance(2) < 0.1
    assert known.chance(6) > 0.9
    assert known.chance(12) == pytest.approx(0.9)  # not seen


def test_a_copy_teaches_about_each_of_its_lengths() -> None:
    known = MatchAcceptance()
    for _ in range(40):
        known.observe(2, 4, 1, was_guessed=True)
    assert known.chance(2) > 0.9
    assert known.chance(3) < 0.1
    assert known.chance(4) == pytest.approx(0.5)  # nothing came so far


def test_sequences_without_a_match_draft_nothing() -> None:
    accepted, drafted = MatchAcceptance().chain((0, 5, 0), 3)
    assert drafted == [1.0, 1.0, 1.0]
    assert accepted[0] > 0.0
    assert MatchAcceptance().chain((0,), 1) == ([0.0], [0.0])


def test_a_drafter_that_is_too_modest_is_understood() -> None:
    """It says 0.3 of tokens that are right in 7 of 10 times."""
    known = Calibration()
    for n in range(400):
        known.observe((0.3,), n % 10 < 7)
    assert 0.3**known.power == pytest.approx(0.7, abs=0.1)
    assert known.said(0.7) == pytest.approx(0.3, abs=0.1)
    known.observe((0.0, 2.0), 2)
    known.observe((), 0)
    assert 0.0 < known.power < 4.0


ROUNDS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)))


@given(ROUNDS, st.booleans())
def test_chains_are_chances(rounds: list[tuple[int, int, int]], hopeful: bool) -> None:
    known, copies = DepthAcceptance(0.6, 3.0, 6), MatchAcceptance()
    for asked, wanted, right in rounds:
        n_drafted = min(asked, wanted)
        known.observe(asked, n_drafted, min(right, n_drafted))
        copies.observe(asked, n_drafted, min(right, n_drafted), was_guessed=None)
    for accepted, drafted in (
        known.chain(9, hopeful=hopeful),
        copies.chain((3,), 9),
    ):
        assert all(0.0 <= p <= 1.0 + 1e-9 for p in accepted + drafted)
        assert accepted == sorted(accepted, reverse=True)
        assert drafted == sorted(drafted, reverse=True)
