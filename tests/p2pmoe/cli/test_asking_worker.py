"""What commands that steer a worker share: its folder, and lines that harm nothing."""

import json

import pytest

from p2pmoe.cli import asking_worker
from p2pmoe.cli.asking_worker import ask, folder_of, print_lines
from p2pmoe.contributor.errors import WorkerNotRunning


def test_the_folder_is_the_usual_one_unless_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert folder_of(None) == tmp_path / "p2pmoe" / "worker"
    assert folder_of(tmp_path) == tmp_path
    with pytest.raises(WorkerNotRunning):
        ask(tmp_path, "status")


def test_lines_are_printed_and_nothing_in_them_steers_a_terminal(capsys):
    lines = [["state", "ready\x1b[2J"], ["odd"], "text", ["n", 7]]
    print_lines({"lines": lines, "state": "ready"}, as_json=False)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.splitlines()[1:] == ["state\tready\ufffd[2J", "n\t7"]
    print_lines({"lines": lines, "state": "ready"}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"state": "ready"}
    print_lines({"lines": {"no": "list"}}, as_json=False)
    assert len(lines) < asking_worker._MAX_LINES
