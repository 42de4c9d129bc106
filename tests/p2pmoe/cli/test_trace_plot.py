"""`p2pmoe trace plot`: a picture of the passes of traces."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from p2pmoe.cli.main import build_app
from p2pmoe.errors import ConfigurationError
from p2pmoe.passes.values import PassTrace
from p2pmoe.trace.format import Configured, Ended, Given, first_line, line_of
from tests.support.passes import a_pass, waited

PASSES = [
    a_pass(1.0, n_committed=1),
    a_pass(1.1, waited(3, 7), n_committed=3, drafter="self", n_drafted=4, n_accepted=2),
    a_pass(1.2, waited(3, 7), waited(4, 9)),
]


def trace(path: Path, passes: list[PassTrace]) -> str:
    records = [Given({"prompt": "a"}), Configured({}), *passes, Ended("stop", "x")]
    path.write_text("".join([first_line("p2pmoe 1"), *map(line_of, records)]))
    return str(path)


def plot(*arguments: str) -> str:
    result = CliRunner().invoke(build_app(), ["trace", "plot", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    assert result.stdout == ""
    return result.stderr


def shown(path: Path) -> list[str]:
    root = ET.parse(path).getroot()  # noqa: S314 - our own
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_one_trace(tmp_path: Path) -> None:
    out = tmp_path / "t.svg"
    told = plot(trace(tmp_path / "run.trace", PASSES), "--out", str(out))
    assert told == f"drawn as {out}\n"
    texts = shown(out)
    assert "Timeline of run.trace" in texts
    assert (
        "decoding: 4 tokens in 2 passes (g = 2.00), 3 waits (A = 0.75 a token), "
        "50% of drafts accepted, 20.0 ms a crossing (median)"
    ) in texts
    assert "passes 1 to 3 of 3, of which the first is the prompt's" in texts


def test_traces_of_lanes_at_the_same_time(tmp_path: Path) -> None:
    other = [a_pass(1.05, lane=1), a_pass(1.15, waited(2, 1), lane=1)]
    one = trace(tmp_path / "a", PASSES)
    out = tmp_path / "t.svg"
    plot(one, trace(tmp_path / "b", other), "--out", str(out))
    texts = shown(out)
    assert {"lane 0", "lane 1", "Timeline of 2 traces"} <= set(texts)


def test_some_passes(tmp_path: Path) -> None:
    out = tmp_path / "t.SVG"
    path = trace(tmp_path / "a", PASSES)
    plot(path, "--out", str(out), "--skip", "1", "--passes", "1")
    assert "passes 2 to 2 of 3, of which the first is the prompt's" in shown(out)


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    one = trace(tmp_path / "a", PASSES)
    empty = trace(tmp_path / "b", [])
    out = str(tmp_path / "t.svg")
    for arguments, reason in (
        ((one, "--out", "t.png"), "no .svg file"),
        ((empty, "--out", out), "b holds no passes"),
        ((one, "--out", out, "--skip", "3"), "none behind the first 3"),
        ((one, "--out", str(tmp_path / "no" / "t.svg")), "cannot write the picture"),
        ((*[one] * 65, "--out", out), "65 traces are more than 64"),
    ):
        with pytest.raises(ConfigurationError, match=reason):
            plot(*arguments)
    assert not (tmp_path / "t.svg").exists()
