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
