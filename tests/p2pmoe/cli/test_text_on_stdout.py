"""Pieces of text become a line, however they end."""

import pytest

from p2pmoe.cli.text_on_stdout import text_on_stdout


def test_pieces_and_the_end_of_the_line(capsys):
    with text_on_stdout() as show:
        show("a")
        show("b")
    assert capsys.readouterr().out == "ab\n"


def test_an_interrupt_ends_the_line_too(capsys):
    def interrupted() -> None:
        with text_on_stdout() as show:
            show("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capsys.readouterr().out == "half\n"


def test_without_text_nothing_is_printed(capsys):
    with text_on_stdout():
        pass
    with text_on_stdout(quiet=True) as show:
        show("unseen")
    assert capsys.readouterr().out == ""


STEERING = "a\x1b[31mred\x07\x9b2J\r\n\tover\x08\x7f \N{FAMILY}\u200d"


def test_text_does_not_steer_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with text_on_stdout() as show:
        show(STEERING)
    shown = capsys.readouterr().out
    assert (
        shown == "a\ufffd[31mred\ufffd\ufffd2J\n\tover\ufffd\ufffd \N{FAMILY}\u200d\n"
    )


def test_a_pipe_gets_what_the_model_said(capsys):
    with text_on_stdout() as show:
        show(STEERING)
    assert capsys.readouterr().out == STEERING + "\n"
