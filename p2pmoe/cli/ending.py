"""Being asked to end, for commands that only compute: as if they were interrupted.

By default a system's request (SIGTERM, or SIGHUP of a terminal that is closed) ends a
process where it stands, and what it would have cleaned up is left. Commands that serve
have their own way.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

__all__ = ["asked_to_end_is_interrupted"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def asked_to_end_is_interrupted() -> Iterator[None]:
    """Raise KeyboardInterrupt at such a signal, unless it is ignored or seen to.

    Handlers belong to the main thread; in another one this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [n for n in _SIGNALS if signal.getsignal(n) is signal.SIG_DFL]
    try:
        for number in taken:
            signal.signal(number, _interrupt)
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
