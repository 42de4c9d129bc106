"""Text that comes in pieces, on stdout: each piece at once, and always a whole line.

Whatever ends the text (its end, an error, an interrupt), the line is ended, so that
what is printed next stands on a line of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["text_on_stdout"]


@contextmanager
def text_on_stdout(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield what prints a piece; nothing is printed if `quiet`, or if no piece came."""
    last = ""

    def show(piece: str) -> None:
        nonlocal last
        last = piece or last
        if not quiet:
            print(piece, end="", flush=True)

    try:
        yield show
    finally:
        if last and not quiet:
            print(flush=True)
