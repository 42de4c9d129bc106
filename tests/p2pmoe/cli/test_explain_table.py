"""The table of steps: aligned on a terminal, columns of numbers in a pipe."""

import io
import re

from p2pmoe.cli.explain_table import ExplainedStep, print_explained
from p2pmoe.client import StepCost

STEPS = [
    ExplainedStep(
        text=" Es",
        cost=StepCost(ram=20, disk=4, cache_hits=1, read_bytes=3 << 20, seconds=0.25),
    ),
    ExplainedStep(text="\x1b[31m\n", cost=StepCost(ram=7, seconds=0.0123, wait_s=0.01)),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def seen(out: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


def test_in_a_pipe_every_number_is_as_it_is() -> None:
    out = io.StringIO()
    print_explained(STEPS, out)
    header, first, second, total = [
        line.split("\t") for line in out.getvalue().splitlines()
    ]
    assert len(header) == len(first) == len(total)
    row = dict(zip(header, first, strict=True))
    assert row["step"] == "prompt"
    assert row["text"] == " Es"
    assert (row["ram"], row["disk"], row["hits"]) == ("20", "4", "1")
    assert (row["read"], row["ms"]) == (str(3 << 20), "250.0")
    row = dict(zip(header, second, strict=True))
    assert row["text"] == r"\x1b[31m\n"
    assert (row["step"], row["wait_ms"], row["ms"]) == ("2", "10.0", "12.3")
    row = dict(zip(header, total, strict=True))
    assert (row["step"], row["ram"], row["ms"]) == ("total", "27", "262.3")


def test_on_a_terminal_columns_of_nothing_are_left_out(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    print_explained(STEPS, out)
    text = out.getvalue()
    assert "3M" in text
    assert "hub" not in text
    assert "disk" in text
    assert "total" in text
    assert "\x1b[31m" not in text
    assert text.index("total") > text.index("\\x1b")


def test_a_narrow_terminal_says_what_it_has_no_room_for(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    cost = StepCost(
        ram=123, disk=45, edge=678, round_trips=126, minor_faults=1234, read_bytes=9999,
        bytes_up=150_000, bytes_down=500_000, seconds=4.9, wait_s=2.8,
    )  # fmt: skip
    step = ExplainedStep(text=" The man said who he was", cost=cost)
    for columns, lacking in ((200, ""), (80, "minor"), (60, "minor, read, up, down")):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = Terminal()
        print_explained([step], out)
        lines = seen(out).splitlines()
        assert "4,900.0" in out.getvalue()
        assert max(map(len, lines)) <= columns
        found = [line for line in lines if line.startswith("no room here for: ")]
        assert found == ([f"no room here for: {lacking}"] if lacking else [])


def test_long_texts_are_cut() -> None:
    out = io.StringIO()
    print_explained([ExplainedStep(text="x" * 99, cost=StepCost())], out)
    assert "x" * 15 + "…" in out.getvalue()
