"""What the demo prints where there is no terminal."""

import dataclasses
import io
import re

from rich.console import Console

from p2pmoe.demo.screen import TerminalScreen, print_facts
from tests.support.demo_facts import GOOD_FACTS


def test_steps_are_lines_and_the_text_stays_whole():
    stream = io.StringIO()
    screen = TerminalScreen(stream)
    calls = screen.as_screen()
    calls.step("relay", 0.0)
    calls.step("relay", 0.5)
    calls.step("backbone", 1.0)
    calls.piece("Once [bold]upon")
    calls.note("killed edge-1")
    calls.piece(" a time")
    screen.close()
    text = stream.getvalue()
    assert text.startswith("relay\nbackbone\n")
    assert "Once [bold]upon [killed edge-1]  a time" in text
    assert "\x1b" not in text


def test_on_a_terminal_no_word_goes_over_the_edge(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(Console, "is_terminal", True)
    stream = io.StringIO()
    screen = TerminalScreen(stream)
    for piece in ("Once", " upon", " a", " time", ",", " in", " win", "ter", "\nhe"):
        screen.piece(piece)
    screen.note("killed edge-1")
    screen.piece("fell")
    screen.close()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert [line.rstrip() for line in text.splitlines()] == [
        *("Once upon a time,", "in winter", "he [killed edge-1]", "fell", "")
    ]


def test_the_tables_name_every_figure_and_worker():
    stream = io.StringIO()
    print_facts(GOOD_FACTS, stream)
    text = stream.getvalue()
    for piece in ("3.25", "ram 40", "60%", "edge-1", "0.000080", "100"):
        assert piece in text
    assert text.count("yes ") == 4
    assert "NO" not in text


def test_what_does_not_hold_is_said():
    stream = io.StringIO()
    facts = dataclasses.replace(GOOD_FACTS, single_process_tokens=(1, 9))
    print_facts(facts, stream)
    assert "NO  the same tokens as a single process" in stream.getvalue()
