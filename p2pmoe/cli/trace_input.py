"""Open a trace file that somebody named, whatever it is: its errors name it."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from p2pmoe.errors import ConfigurationError
from p2pmoe.trace.format import (
    TraceRecord,
    TraceUnreadable,
    bounded_lines,
    read_trace,
)

__all__ = ["no_passes", "open_trace"]


@contextmanager
def open_trace(path: Path) -> Iterator[Iterator[TraceRecord]]:
    """Open a trace for its records, one by one.

    Raises:
        ConfigurationError: it is no file, or cannot be read.
        TraceUnreadable: it is no trace, while its records are read.
    """

    def named(stream: BinaryIO) -> Iterator[TraceRecord]:
        try:
            yield from read_trace(bounded_lines(stream))
        except TraceUnreadable as error:
            raise TraceUnreadable(f"{path}: {error}", advice=error.advice) from error
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {_why(error)}") from error

    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigurationError(f"{path} is no file")
        stream = path.open("rb")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {path}: {_why(error)}") from error
    with stream:
        yield named(stream)


def no_passes(path: Path, n_all: int, skip: int) -> ConfigurationError:
    """Return the error of a trace that has `n_all` passes, all of them skipped."""
    if n_all:
        return ConfigurationError(
            f"{path} has {n_all} passes, none behind the first {skip}",
            advice="lower --skip",
        )
    return ConfigurationError(
        f"{path} holds no passes",
        advice="keep a new one with `p2pmoe run --trace FILE`, on a backbone of this "
        "release",
    )


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).lower()
