"""Reports: plain for a pipe, a table for people, JSON on request."""

import json
import sys

from p2pmoe.cli.tables import print_json, print_rows, print_values

ROWS = [{"name": "a", "n": 1}, {"name": "b", "n": 20}]


def test_plain_columns_in_a_pipe(capsys):
    print_rows(("name", "n"), ROWS, "A title")
    print_values({"x": 1, "y": "two"})
    out, err = capsys.readouterr()
    assert out == "name\tn\na\t1\nb\t20\nname\tvalue\nx\t1\ny\ttwo\n"
    assert err == ""


def test_a_table_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    print_rows(("name", "n"), ROWS, "A title")
    out = capsys.readouterr().out
    assert "A title" in out
    assert "\t" not in out
    assert [line.split() for line in out.splitlines()][-3:-1] == [
        ["a", "1"],
        ["b", "20"],
    ]


def test_json(capsys):
    print_json({"é": [1]})
    assert json.loads(capsys.readouterr().out) == {"é": [1]}
