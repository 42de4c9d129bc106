"""Text that comes in pieces, on stdout: each piece at once, and always a whole line.

Whatever ends the text (its end, an error, an interrupt), the line is ended, so that
what is printed next stands on a line of its own. On a terminal the text cannot steer
it: of control characters only the tab and the new line pass, U+FFFD stands for others,
and a carriage return is left out. A pipe gets what the model said.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["text_on_stdout"]

_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")
_HARMLESS = {**_CONTROLS, ord("\n"): "\n", ord("\t"): "\t", ord("\r"): ""}


@contextmanager
def text_on_stdout(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield what prints a piece; nothing is printed if `quiet`, or if no piece came."""
    last = ""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()

    def show(piece: str) -> None:
        nonlocal last
        last = piece or last
        if not quiet:
            shown = piece.translate(_HARMLESS) if is_terminal else piece
            print(shown, end="", flush=True)

    try:
        yield show
    finally:
        if last and not quiet:
            print(flush=True)
