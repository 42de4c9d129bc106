"""`p2pmoe trace diff`: 0 equal, 1 different, 2 unreadable."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from p2pmoe.cli.main import build_app
from p2pmoe.errors import ConfigurationError
from p2pmoe.trace.format import (
    CallHash,
    Configured,
    Ended,
    Given,
    PositionHashes,
    TraceUnreadable,
    first_line,
    line_of,
)


def trace(path: Path, *, digest: str = "0" * 16, profile: str = "r16") -> str:
    records = [
        Given({"prompt": "a"}),
        Configured({"profile": profile}),
        PositionHashes(0, (CallHash(1, -1, "a" * 16), CallHash(1, 6, digest))),
        Ended("stop", "x"),
    ]
    path.write_text("".join([first_line("p2pmoe 1"), *map(line_of, records)]))
    return str(path)


def diff(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(), ["trace", "diff", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_equal_runs(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a"), trace(tmp_path / "b")
    assert diff(a, b) == (0, "the runs are equal: 2 values at 1 positions\n")


def test_the_first_place_is_named(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a"), trace(tmp_path / "b", digest="1" * 16)
    code, out = diff(a, b)
    assert code == 1
    assert out.splitlines() == [
        "deviates\tA\tB",
        f"position 0, layer 1, expert 6\t{'0' * 16}\t{'1' * 16}",
    ]
    code, out = diff(a, b, "--json")
    place = json.loads(out)["place"]
    assert code == 1
    assert (place["position"], place["layer"], place["expert"]) == (0, 1, 6)


def test_a_configuration_that_changes_no_value_is_told_as_such(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a"), trace(tmp_path / "b", profile="r8")
    code, out = diff(a, b)
    assert code == 1
    assert "configuration: profile\tr16\tr8" in out
    assert "the same at 1 positions" in out


def test_what_is_no_trace_names_the_file(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a"), tmp_path / "b"
    b.write_bytes(b"\x00\xff" * 10)
    with pytest.raises(TraceUnreadable, match=r"b: line 1: ") as refused:
        diff(a, str(b))
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("what", ["missing", "folder", "pipe"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, what: str) -> None:
    a, b = trace(tmp_path / "a"), tmp_path / "b"
    if what == "folder":
        b.mkdir()
    elif what == "pipe":
        os.mkfifo(b)  # nobody will ever write
    with pytest.raises(ConfigurationError) as refused:
        diff(a, str(b))
    assert refused.value.exit_code == 2
