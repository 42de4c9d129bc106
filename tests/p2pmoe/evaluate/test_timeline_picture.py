"""The timeline's SVG."""

import dataclasses
from pathlib import Path

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.evaluate.timeline import series_of, timeline
from tests.support.evaluations import RUN, changed

pytest.importorskip("matplotlib")
from p2pmoe.evaluate.timeline_picture import draw_timeline

RUNS = [RUN, changed(profile="r8"), changed(ram_bytes=5)]


def draw(path: Path, runs=RUNS) -> None:
    moments = timeline((str(n), run) for n, run in enumerate(runs))
    draw_timeline(moments, series_of(runs), path)


def test_the_same_runs_make_the_same_picture(tmp_path: Path):
    one, other = tmp_path / "a.svg", tmp_path / "b.svg"
    draw(one)
    draw(other)
    assert one.read_bytes() == other.read_bytes()
    text = one.read_text(encoding="utf-8")
    assert "<svg " in text
    assert text.rstrip().endswith("</svg>")


def test_names_are_no_formulas(tmp_path: Path):
    run = changed(formats={"$\\frac{": "x", "\x1b[31m": "y"})
    draw(tmp_path / "a.svg", [RUN, run])
    assert "\x1b" not in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="cannot write the picture"):
        draw(tmp_path / "nowhere" / "a.svg")


def test_inputs_of_other_size_have_panels_of_their_own(tmp_path: Path):
    assert RUN.text is not None
    text = dataclasses.replace(RUN.text, sha256="99" * 32)
    other = dataclasses.replace(RUN, text=text, figures={"perplexity": 7.0})
    draw(tmp_path / "a.svg", [RUN, other])
    assert "(input 2)" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_runs_without_figures_are_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="no run has a figure"):
        draw(tmp_path / "a.svg", [dataclasses.replace(RUN, figures={})])
