"""The table of figures: each has its meaning, its unit and its direction."""

import re
from pathlib import Path

from p2pmoe.evaluate.figures import FIGURES, Better, shown

DOCS = Path(__file__).resolve().parents[3] / "docs/reference"


def test_every_figure_says_what_it_is():
    assert len(FIGURES) > 15
    for name, figure in FIGURES.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]+", name)
        assert (figure.name, figure.unit in {"", "share", "nats", "s"}) == (name, True)
        assert figure.what
        assert name.endswith("_s") == (figure.unit == "s")


def test_agreement_is_better_when_higher_and_time_when_lower():
    assert FIGURES["top1_agreement"].better is Better.HIGHER
    assert FIGURES["perplexity"].better is Better.LOWER
    assert FIGURES["first_token_p99_s"].better is Better.LOWER


def test_values_are_shown_with_their_unit():
    assert shown("perplexity", 40.58512) == "40.5851"
    assert shown("answer_accuracy", 0.4567) == "45.7 %"
    assert shown("gap_p50_s", 0.0123) == "12.3 ms"


def test_every_figure_is_documented():
    page = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    assert not [name for name in FIGURES if f"`{name}`" not in page]
