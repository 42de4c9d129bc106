"""Options are priced by what they give and take."""

import pytest

from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.backbone.speculation.options import (
    Option,
    Way,
    larger,
    quickest,
    why,
    why_plain,
)

SELF = Way(DraftSource.SELF, step_s=0.01)
CHAIN = ([0.8**k for k in range(1, 17)], [1.0] * 16)


def test_drafts_go_on_as_long_as_they_make_it_quicker() -> None:
    best, best_of_all = quickest(SELF, CHAIN, (1, 1), lambda rows: 0.1, 9.0)
    assert best is best_of_all
    assert best is not None
    rates = [
        (1 + sum(CHAIN[0][:k])) / (0.1 + 0.01 * k) for k in (1, 2, 3, 4, 6, 8, 12, 16)
    ]
    assert best.rate == pytest.approx(max(rates))
    assert best.row_s == pytest.approx(0.01)


def test_what_is_not_covered_is_not_taken() -> None:
    best, best_of_all = quickest(SELF, CHAIN, (1, 1), lambda rows: 0.1, 0.125)
    assert best is not None
    assert best.n_drafts == 2
    assert best_of_all is not None
    assert best_of_all.n_drafts > 2
    nothing, _ = quickest(SELF, CHAIN, (1, 1), lambda rows: 0.1, 0.05)
    assert nothing is None


def test_without_a_chain_there_is_no_option() -> None:
    assert quickest(SELF, ([], []), (1, 1), lambda rows: 0.1, 9.0) == (None, None)


def test_a_dip_does_not_hide_what_is_behind_it() -> None:
    """As where a single size of pass happened to be slow."""

    def pass_s(rows: float) -> float:
        return 0.5 if rows == 4.0 else 0.1

    best, _ = quickest(SELF, CHAIN, (1, 1), pass_s, 9.0)
    assert best is not None
    assert best.n_drafts > 4


def test_twice_as_many_can_be_asked_for() -> None:
    option = Option(SELF, 3, 2.0, 0.1)
    more = larger(option, CHAIN, (1, 1), lambda rows: 0.1)
    assert more is not None
    assert (more.n_drafts, more.rows) == (6, 7.0)
    assert larger(Option(SELF, 16, 2.0, 0.1), CHAIN, (1, 1), lambda rows: 0.1) is None


def test_times_of_nothing_are_no_rate() -> None:
    assert Option(SELF, 1, 1.0, 0.0).rate == 0.0


def test_reasons_are_told() -> None:
    plain = Option(Way(None), 0, 1.0, 0.038)
    best = Option(SELF, 6, 2.81, 0.0412)
    assert why(best, plain) == "self 6: 2.8 tokens in 41.2 ms, plain 1 in 38.0 ms"
    hope = Option(Way(DraftSource.SELF, prefetch=True, is_hope=True), 2, 2.5, 0.02)
    assert why(hope, plain).startswith("tries self 2 with prefetch: 2.5 tokens")
    assert why_plain(plain, None) == "plain: nobody has a draft"
    assert why_plain(plain, best) == (
        "plain: 1 token in 38.0 ms, self 6: 2.8 tokens in 41.2 ms"
    )
