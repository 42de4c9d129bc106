"""Reports: plain for a pipe, a table for people, JSON on request."""

import json
import re
import sys

import pytest

from p2pmoe.cli.tables import fit, print_json, print_rows, print_values

ROWS = [{"name": "a", "n": 1}, {"name": "b", "n": 20}]


def test_plain_columns_in_a_pipe(capsys):
    print_rows(("name", "n"), ROWS, "A title")
    print_values({"x": 1, "y": "two"})
    out, err = capsys.readouterr()
    assert out == "name\tn\na\t1\nb\t20\nname\tvalue\nx\t1\ny\ttwo\n"
    assert err == ""


def test_a_title_that_says_the_unit_is_kept_on_stderr(capsys):
    print_rows(("name", "n"), ROWS, "In G", keep_title=True)
    out, err = capsys.readouterr()
    assert out == "name\tn\na\t1\nb\t20\n"
    assert err == "In G\n"


def on_a_terminal(monkeypatch, n_columns):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(n_columns))


def test_a_table_on_a_terminal(capsys, monkeypatch):
    on_a_terminal(monkeypatch, 80)
    print_rows(("name", "n"), ROWS, "A title")
    out = capsys.readouterr().out
    assert "A title" in out
    assert "\t" not in out
    assert [line.split() for line in out.splitlines()][-2:] == [["a", "1"], ["b", "20"]]
    print_rows(("name", "n"), [], "A title")
    assert capsys.readouterr().out == "A title: none\n"
    print_values({"x": 1, "longer": "ab" * 32})
    assert capsys.readouterr().out == "x       1\nlonger  " + "ab" * 32 + "\n"


def test_a_terminal_shows_what_eyes_can_use(capsys, monkeypatch):
    on_a_terminal(monkeypatch, 80)
    row = {
        "time": "2026-11-29T18:00:29.034643Z",
        "worker": "37a45942" + "0" * 56,
        "tab": "559f75c12345678a",
        "reason": "",
        "amount_uc": 4200,
        "amount": "0.004200",
    }
    print_rows(tuple(row), [row])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    lines = [line.split() for line in plain.splitlines()]
    assert lines[0] == ["time", "worker", "tab", "amount"]
    cells = ["2026-11-29", "18:00:29", "37a45942", "559f75c12345678a", "0.004200"]
    assert lines[-1] == cells


def test_a_closed_stdout_takes_it_in_silence(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    print_rows(("name", "n"), ROWS, "A title")
    print_values({"x": 1})


def test_nothing_is_cut_off_where_there_is_no_room(capsys, monkeypatch):
    on_a_terminal(monkeypatch, 20)
    print_rows(("a", "b"), [{"a": "x" * 30, "b": "y" * 30}])
    out = capsys.readouterr().out
    assert (out.count("x"), out.count("y")) == (30, 30)


VOUCHER = {
    "time": "2026-11-30T12:20:25.652952Z",
    "status": "pending",
    "reason": "window",
    "worker": "25" * 32,
    "tab": "abbd76ff53bd885f",
    "number": 1,
    "servings": 27,
    "amount": "0.004100",
}


def test_numbers_ids_and_the_halves_of_a_time_stay_whole(capsys, monkeypatch):
    on_a_terminal(monkeypatch, 80)
    print_rows(tuple(VOUCHER), [VOUCHER, VOUCHER])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    lines = plain.splitlines()
    assert max(map(len, lines)) <= 80
    words = [word for line in lines[-4:-2] for word in line.split()]
    whole = ["2026-11-30", "12:20:25", "25252525", VOUCHER["tab"], "0.004100"]
    assert set(whole) < set(words)


def test_rows_without_room_are_blocks_with_whole_ids(capsys, monkeypatch):
    on_a_terminal(monkeypatch, 80)
    row = {**VOUCHER, "why": "closed", "empty": "", "more": "a_long_name " * 3}
    print_rows(tuple(row), [row, row], "Vouchers")
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "Vouchers"
    assert lines[1].split() == ["time", VOUCHER["time"]]
    assert lines[4].split() == ["worker", VOUCHER["worker"]]
    assert lines[1:12] == lines[12:23]
    assert lines[11] == ""


@pytest.mark.parametrize(
    ("widths", "least", "room", "fitted"),
    [
        ([5, 30, 10], [5, 10, 10], 45, [5, 30, 10]),
        ([5, 30, 10], [5, 10, 10], 26, [5, 11, 10]),
        ([20, 30], [4, 4], 24, [12, 12]),
        ([8, 8], [8, 8], 10, [8, 8]),  # never narrower than the least
        ([], [], 0, []),
    ],
)
def test_the_widest_columns_are_cut_first(widths, least, room, fitted):
    assert fit(widths, least, room) == fitted


def test_json(capsys):
    print_json({"é": [1]})
    assert json.loads(capsys.readouterr().out) == {"é": [1]}


STEERING = "a\x1b[31m\x9b2J\ud800\u202e\tb\nc [/red]\N{BLACK SQUARE}"


def test_json_escapes_what_would_steer_a_terminal(capsys):
    print_json({"name": STEERING, "n": [1, "\U000e0001"]})
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": STEERING, "n": [1, "\U000e0001"]}
    assert out.replace("\n", "").isprintable()
    assert "\N{BLACK SQUARE}" in out


def test_values_cannot_steer_a_terminal_or_break_a_column(capsys, monkeypatch):
    def check(out):
        assert (
            "\ufffd[31m\ufffd2J\ufffd\ufffd\ufffdb\ufffdc [/red]\N{BLACK SQUARE}" in out
        )
        assert "\x9b" not in out

    for n_columns in (0, 200):
        if n_columns:
            on_a_terminal(monkeypatch, n_columns)
        print_values({"name": STEERING})
        check(capsys.readouterr().out)
        print_rows(("name", "n"), [{"name": STEERING, "n": 1}])
        check(capsys.readouterr().out)
