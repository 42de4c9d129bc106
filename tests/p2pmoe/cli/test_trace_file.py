"""The file of a run: new, and ended whatever ends the run."""

from pathlib import Path

import pytest

from p2pmoe.cli import trace_file as module
from p2pmoe.cli.trace_file import TraceFile, trace_file
from p2pmoe.client import ApiError, Completion, TextDelta
from p2pmoe.errors import ConfigurationError
from p2pmoe.trace.format import Configured, Ended, Given, bounded_lines, read_trace
from p2pmoe.trace.recording import NoTrace

BODY = {"prompt": "abc", "max_tokens": 4, "seed": 7}
CHUNK = TextDelta(
    text="x", extension={"hashes": [[0, 1, None, "0" * 16], [0, 1, 3, "1" * 16]]}
)
ANSWER = Completion(
    text="xy", finish_reason="stop", usage={"prompt_tokens": 3}, extension={}
)
CARD = {"id": "m", "p2pmoe": {"configuration": {"profile": "r16", "ram": None}}}


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "served_model", lambda url, *, key: CARD)


def records(path: Path) -> list[object]:
    with path.open("rb") as stream:
        return list(read_trace(bounded_lines(stream)))


def test_a_run_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with trace_file(path, "url", "", BODY) as trace:
        trace.watch(CHUNK)
        trace.ended(ANSWER)
    given, configured, position, end = records(path)
    assert given == Given(BODY)
    assert configured == Configured({"profile": "r16", "ram": "none"})
    assert position.position == 0
    assert end == Ended("stop", "xy", 3)


def test_a_run_that_fails_says_so_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    opened = trace_file(path, "url", "", BODY)
    opened.__enter__().watch(CHUNK)
    opened.__exit__(ApiError, ApiError("lost"), None)
    assert records(path)[-1] == Ended(None, "x")


def test_a_backbone_without_hashes_makes_no_trace(tmp_path: Path) -> None:
    with (
        pytest.raises(NoTrace, match="sent no hashes"),
        trace_file(tmp_path / "t", "url", "", BODY) as trace,
    ):
        trace.ended(ANSWER)


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match="there already"):
        trace_file(path, "url", "", BODY).__enter__()
    assert path.read_text() == "mine"


def test_nothing_is_left_of_a_trace_that_did_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(url: str, *, key: str) -> dict[str, object]:
        raise ApiError("no backbone answers")

    monkeypatch.setattr(module, "served_model", unreachable)
    with pytest.raises(ApiError):
        trace_file(tmp_path / "t", "url", "", BODY).__enter__()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigurationError, match="cannot write the trace"):
        trace_file(tmp_path / "no" / "t", "url", "", BODY).__enter__()


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    class Full:
        def write(self, text: str) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(ConfigurationError, match="no space left"):
        TraceFile(tmp_path / "t", Full())
