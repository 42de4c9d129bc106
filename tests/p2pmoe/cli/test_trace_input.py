"""A trace file's errors name it."""

from pathlib import Path

import pytest

from p2pmoe.cli.trace_input import no_passes, open_trace
from p2pmoe.errors import ConfigurationError
from p2pmoe.trace.format import Configured, Ended, Given, first_line, line_of
from p2pmoe.trace.format import TraceUnreadable as Unreadable


def test_records_come_one_by_one(tmp_path: Path) -> None:
    records = [Given({"prompt": "a"}), Configured({}), Ended("stop", "x")]
    path = tmp_path / "t"
    path.write_text("".join([first_line("p2pmoe 1"), *map(line_of, records)]))
    with open_trace(path) as found:
        assert list(found) == records


def test_what_is_none_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("{}\n")
    with open_trace(tmp_path / "t") as found, pytest.raises(Unreadable, match=r"t: li"):
        list(found)
    for odd in (tmp_path, tmp_path / "none", Path("a\x00b")):
        with pytest.raises(ConfigurationError), open_trace(odd):
            pass


def test_a_trace_without_passes_and_one_that_was_skipped_are_told_apart() -> None:
    assert no_passes(Path("t"), 3, 9).advice == "lower --skip"
    assert "holds no passes" in str(no_passes(Path("t"), 0, 9))
