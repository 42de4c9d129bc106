"""The tables of passes and layers: for eyes, and for pipes."""

import io
import re

from p2pmoe.cli.explain_passes import ExplainedPass, print_passes
from p2pmoe.passes.values import LayerTrace, PassTrace


def layer(number: int, *missing: int) -> LayerTrace:
    return LayerTrace(
        layer=number,
        start_s=0.001,
        missing=missing,
        n_rows=2,
        trips=1,
        meanwhile_s=0.005,
        wait_s=0.015,
    )


def told(n_committed: int, *layers: LayerTrace, **more: object) -> PassTrace:
    return PassTrace(
        start_s=0.0,
        seconds=0.05,
        n_layers=7,
        n_committed=n_committed,
        trips=len(layers),
        wait_s=sum(each.wait_s for each in layers),
        layers=layers,
        **more,
    )


PASSES = [
    ExplainedPass(text="", told=told(0, layer(0, 1), layer(1, 2))),
    ExplainedPass(text=" Es", told=told(1, layer(0, 1))),
    ExplainedPass(
        text=" war\x1b[31m",
        told=told(
            3,
            layer(2, 4, 9),
            layer(6, 9),
            drafter="self",
            n_drafted=4,
            n_accepted=2,
            why="4 drafts: 61 tokens/s",
        ),
    ),
    ExplainedPass(text="", told=told(0, layer(6, 9), failure="nobody holds 9")),
    ExplainedPass(text=" a", told=told(1, layer(6, 9))),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def seen(out: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


def test_in_a_pipe_there_are_two_tables_and_the_sums() -> None:
    out = io.StringIO()
    print_passes(PASSES, out)
    passes, layers, sums = out.getvalue().lstrip("\n").split("\n\n")
    header, *rows = [line.split("\t") for line in passes.splitlines()]
    found = [dict(zip(header, row, strict=True)) for row in rows]
    assert [row["pass"] for row in found] == ["prompt", "prompt", "1", "2", "3"]
    third = found[2]
    assert (third["drafter"], third["drafts"], third["kept"]) == ("self", "4", "2")
    assert (third["trips"], third["wait_ms"], third["ms"]) == ("2", "30.0", "50.0")
    assert third["waited"] == "2:4,9;6:9"
    assert third["why"] == "4 drafts: 61 tokens/s"
    assert found[3]["why"].startswith("failed: nobody holds 9")
    header, first, second = [line.split("\t") for line in layers.splitlines()]
    row = dict(zip(header, second, strict=True))
    assert first[:3] == ["2", "1", "3"]
    assert (row["layer"], row["waits"], row["of"]) == ("6", "3", "3")
    assert (row["wait_ms"], row["crossing_ms"]) == ("15.0", "20.0")
    assert row["experts"] == "9x3"
    assert sums.splitlines() == [
        "trips per token         1.000",
        "tokens per pass         1.333",
        "acceptance              0.500 (self 2 of 4)",
        "ms per crossing         20.0 (median)",
        "hidden behind own work  0.250 of the crossings",
    ]


def test_on_a_terminal_columns_of_nothing_are_left_out(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    print_passes(PASSES, out)
    text = out.getvalue()
    assert "fetch_ms" not in text
    assert "hedged" not in text
    assert "self" in text
    assert "\x1b[31m" not in text
    assert max(map(len, seen(out).splitlines())) <= 100


def test_why_stands_below_a_table_that_has_no_room_for_it(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for columns, line in (
        (60, "     1  2 6     4 drafts: 61 tokens/s"),
        (80, "     1  4 drafts: 61 tokens/s"),
        (160, None),
    ):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = Terminal()
        print_passes(PASSES, out)
        lines = seen(out).splitlines()
        assert out.getvalue().count("4 drafts: 61 tokens/s") == 1
        assert line is None or line in lines
        assert "failed: nobody holds 9" in out.getvalue()
        assert max(map(len, lines)) <= columns
        assert any(cells.startswith("     1") and " 50.0" in cells for cells in lines)


def test_of_a_pass_a_very_narrow_terminal_says_what_it_lacks(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    more = {"drafter": "self", "n_drafted": 4, "n_accepted": 2, "draft_s": 0.01}
    passes = [PASSES[1], ExplainedPass(text=" a", told=told(3, layer(2, 4), **more))]
    for columns, lacking in ((80, None), (60, "draft_ms"), (52, "rows, draft_ms")):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = Terminal()
        print_passes(passes, out)
        lines = seen(out).splitlines()
        found = [line for line in lines if line.startswith("no room here for: ")]
        assert found == ([f"no room here for: {lacking}"] if lacking else [])
        assert "…" not in "".join(lines)


def test_a_narrow_terminal_shows_the_experts_that_it_has_room_for(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    first = ExplainedPass(text="", told=told(1))
    second = ExplainedPass(text="", told=told(1, layer(0, *range(9))))
    print_passes([first, second], out)
    rows = [line for line in seen(out).splitlines() if "0x1" in line]
    assert len(rows) == 1
    assert "0x1 1x1 2x1 3x1 ..." in rows[0]


def test_layers_that_follow_each_other_are_one_range(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    waits = told(1, *(layer(number, 1) for number in (0, 2, 3, 4, 6, 7)))
    print_passes([ExplainedPass(text="", told=waits)], out)
    assert " 0 2-4 6-7 " in out.getvalue()


def test_of_no_passes_nothing_is_said() -> None:
    out = io.StringIO()
    print_passes([], out)
    assert out.getvalue() == ""


def test_many_experts_are_cut() -> None:
    out = io.StringIO()
    first = ExplainedPass(text="", told=told(1))
    second = ExplainedPass(text="", told=told(1, layer(0, *range(9))))
    print_passes([first, second], out)
    assert "0x1 1x1 2x1 3x1 4x1 5x1 ...\n" in out.getvalue()


def test_whatever_a_drafter_is_called_it_steers_no_terminal(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    name = "\x1b[2J\n\t\ud800"
    passes = [told(1), told(2, drafter=name, n_drafted=1, why=name, failure=name)]
    for out in (io.StringIO(), Terminal()):
        explained = [ExplainedPass(text=name, told=each) for each in passes]
        print_passes(explained, out)
        text = out.getvalue()
        text.encode()
        assert "\x1b[2J" not in text
        assert "acceptance" in text
    assert "\\x1b[2J" in text
