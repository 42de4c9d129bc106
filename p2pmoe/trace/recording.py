"""Writes a trace while its run goes on: what the API tells, checked, line by line.

Rules: what comes from outside is checked before it is written; positions ascend;
whatever ends the run, the file gets its last line. A sans-I/O core: lines leave through
`write`.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from p2pmoe.errors import P2pmoeError
from p2pmoe.evaluate.reading import Misread
from p2pmoe.passes.documents import PassUnreadable, read_pass
from p2pmoe.passes.values import PassTrace
from p2pmoe.trace.format import (
    MAX_POSITION,
    CallHash,
    Configured,
    Ended,
    Given,
    PositionHashes,
    TraceRecord,
    first_line,
    line_of,
    read_call_hash,
)

__all__ = ["NoTrace", "TraceRecorder", "flat_configuration"]

_MAX_FIELDS: Final = 1000
_MAX_TEXT: Final = 1000


class NoTrace(P2pmoeError):
    """The backbone does not tell what a trace needs."""

    exit_code = 1


class TraceRecorder:
    """One trace under way."""

    def __init__(self, write: Callable[[str], object], made_by: str) -> None:
        """Write the first line."""
        self._write = write
        self._last = -1
        self._ended = False
        self.n_hashes = 0
        write(first_line(made_by))

    def begin(self, given: Given, configured: Configured) -> None:
        """Write what the run was asked for, and of what configuration."""
        self._put(given)
        self._put(configured)

    def watch(self, extension: Mapping[str, Any] | None) -> None:
        """Take the passes and hashes of one chunk's `p2pmoe` object.

        Raises:
            NoTrace: hashes are not [position, layer, expert, digits], or out of order;
                or a pass is none.
        """
        try:
            for told in _passes((extension or {}).get("passes", [])):
                self._put(told)
            for record in _positions((extension or {}).get("hashes", [])):
                self._put_position(record)
        except Misread as error:
            raise NoTrace(f"the backbone's hashes cannot be used: {error}") from error
        except PassUnreadable as error:
            raise NoTrace(f"the backbone's passes cannot be used: {error}") from error

    def end(self, reason: str | None, text: str, n_prompt: int = 0) -> None:
        """Write the last line, once; `reason` None for a run that failed."""
        if not self._ended:
            self._ended = True
            self._put(Ended(reason, text, n_prompt))

    def _put_position(self, record: PositionHashes) -> None:
        if record.position <= self._last:
            raise Misread(f"position {record.position} is late")
        self._last = record.position
        self.n_hashes += len(record.hashes)
        self._put(record)

    def _put(self, record: TraceRecord) -> None:
        self._write(line_of(record))


def flat_configuration(card: Mapping[str, Any]) -> Configured:
    """Return the configuration on a model's card as names and texts, sorted.

    Empty if the card has none: an older backbone's.
    """
    extension = card.get("p2pmoe")
    found = extension.get("configuration") if isinstance(extension, Mapping) else None
    if not isinstance(found, Mapping):
        return Configured({})
    pairs = sorted(_flat(found, ""))[:_MAX_FIELDS]
    return Configured({name[:_MAX_TEXT]: text[:_MAX_TEXT] for name, text in pairs})


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and not prefix:
            yield from _flat(value, f"{name}: ")
        else:
            yield f"{prefix}{name}", "none" if value is None else str(value)


def _passes(passes: object) -> Iterator[PassTrace]:
    if not isinstance(passes, list):
        raise PassUnreadable("they are no list")
    return map(read_pass, passes)


def _positions(hashes: object) -> Iterator[PositionHashes]:
    if not isinstance(hashes, list):
        raise Misread("they are no list")
    for position, group in groupby(hashes, _position_of):
        calls = sorted(_call(item) for item in group)
        places = {(call.layer, call.expert) for call in calls}
        if len(places) < len(calls):
            raise Misread(f"position {position} has two of one call")
        yield PositionHashes(position, tuple(calls))


def _position_of(item: object) -> int:
    if not isinstance(item, list) or len(item) != 4:
        raise Misread("a hash is not [position, layer, expert, digits]")
    position = item[0]
    if not isinstance(position, int) or not 0 <= position <= MAX_POSITION:
        raise Misread("a position must be a number")
    return int(position)


def _call(item: list[Any]) -> CallHash:
    return read_call_hash(*item[1:])
