"""The folder of runs: written whole, read with suspicion, searched by digest."""

import dataclasses
import os
from pathlib import Path

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.evaluate import store
from p2pmoe.evaluate.errors import RunUnreadable
from p2pmoe.evaluate.store import (
    find_run,
    is_evaluated,
    load_run,
    save_run,
    stored_runs,
)
from tests.support.evaluations import CONFIGURATION, RUN, changed


def at(made: str, **configuration):
    return dataclasses.replace(changed(**configuration), made=made)


def test_a_run_is_stored_and_read(tmp_path: Path):
    path = save_run(tmp_path / "deep" / "runs", RUN)
    assert path.name == f"20261130T030000Z-{CONFIGURATION.digest[:16]}-1.json"
    assert load_run(path).identity == RUN.identity
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_runs_of_one_second_are_all_kept_without_links_too(tmp_path, monkeypatch):
    paths = [save_run(tmp_path, RUN) for _ in range(2)]

    def no_links(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", no_links)
    paths += [save_run(tmp_path, RUN) for _ in range(2)]
    assert [p.stem[-2:] for p in paths] == ["-1", "-2", "-3", "-4"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [p.name for p in paths]


def test_runs_of_one_second_keep_their_order(tmp_path: Path):
    runs = [changed(profile=each) for each in ("r8", "r16", "r32", "r16", "r8")]
    for run in runs:
        save_run(tmp_path, run)
    assert [run.digest for _, run in stored_runs(tmp_path)] == [r.digest for r in runs]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot store the run in"):
        save_run(tmp_path / "file", RUN)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is not valid JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[1, 2]", "is no JSON object"),
        (b"{}", "is no run of `p2pmoe eval`"),
        (b'{"kind": "p2pmoe evaluation", "version": 9}', "has version 9"),
    ],
)
def test_what_is_no_run_is_refused_by_name(tmp_path: Path, raw: bytes, words: str):
    path = tmp_path / "run.json"
    path.write_bytes(raw)
    with pytest.raises(RunUnreadable, match=words) as caught:
        load_run(path)
    assert "run.json" in str(caught.value)


def test_what_is_too_large_or_no_file_is_refused(tmp_path: Path, monkeypatch):
    path = save_run(tmp_path, RUN)
    monkeypatch.setattr(store, "MAX_RUN_BYTES", 100)
    with pytest.raises(RunUnreadable, match="larger than 100 bytes"):
        load_run(path)
    with pytest.raises(RunUnreadable, match="there is no run"):
        load_run(tmp_path)
    with pytest.raises(RunUnreadable, match="there is no run"):
        load_run(tmp_path / "missing.json")


def test_stored_runs_come_by_time_and_others_are_named(tmp_path: Path):
    later = at("2026-12-01T00:00:00Z")
    for run in (later, RUN):
        save_run(tmp_path, run)
    (tmp_path / "20261130T040000Z-abcd-1.json").write_text("{}")
    (tmp_path / "weights-ab.json").write_text("{}")
    skipped: list[str] = []
    made = [run.made for _, run in stored_runs(tmp_path, skipped.append)]
    assert made == [RUN.made, later.made]
    assert len(skipped) == 1
    assert list(stored_runs(tmp_path / "nowhere")) == []


def test_a_run_is_found_by_file_digest_or_last(tmp_path: Path):
    first = save_run(tmp_path, RUN)
    again = save_run(tmp_path, at("2026-12-01T00:00:00Z"))
    other = save_run(tmp_path, at("2026-12-02T00:00:00Z", profile="r8"))
    assert find_run(str(first), tmp_path / "elsewhere") == first
    assert find_run(first.name, tmp_path) == first
    assert find_run(CONFIGURATION.digest, tmp_path) == again
    assert find_run(CONFIGURATION.digest[:6], tmp_path) == again
    assert find_run("last", tmp_path) == other
    for name in ("abc", "ffff0000ffff", ""):
        with pytest.raises(RunUnreadable, match="is called"):
            find_run(name, tmp_path)


def test_a_configuration_is_evaluated_if_a_whole_run_says_so(tmp_path: Path):
    assert not is_evaluated(tmp_path, CONFIGURATION)
    path = save_run(tmp_path, RUN)
    assert is_evaluated(tmp_path, CONFIGURATION)
    other = dataclasses.replace(CONFIGURATION, profile="r8")
    assert not is_evaluated(tmp_path, other)
    # A name alone proves nothing.
    path.rename(
        tmp_path / path.name.replace(CONFIGURATION.digest[:16], other.digest[:16])
    )
    assert not is_evaluated(tmp_path, other)
    (tmp_path / f"20261130T040000Z-{other.digest[:16]}-1.json").write_text("{")
    assert not is_evaluated(tmp_path, other)


def test_unread_weights_are_never_evaluated(tmp_path: Path):
    save_run(tmp_path, changed(weights=""))
    unread = dataclasses.replace(CONFIGURATION, weights="")
    assert not is_evaluated(tmp_path, unread)
