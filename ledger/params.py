"""Parameters of an operation, read strictly: known names, right types, bounded.

Contract: what comes from a socket or a command line is a mapping of JSON values. Each
reader takes one name off the mapping, checks its type and bound, and returns it;
`done` refuses what nobody asked for. There is no float: a number is an integer. Pure.
"""

from collections.abc import Mapping, Sequence

from ledger.amounts import MAX_SUM_UC
from ledger.errors import OperationRefused

__all__ = ["Params"]

_MISSING = object()
_MAX_SHOWN = 60


class Params:
    """Reads each parameter once; every refusal names it."""

    def __init__(self, given: Mapping[str, object]) -> None:
        """Take what was given; nothing is read yet."""
        self._left = dict(given)

    def text(
        self, name: str, *, max_chars: int = 200, default: str | None = None
    ) -> str:
        """Return a printable text of at most `max_chars` characters.

        Raises:
            OperationRefused: missing without a default, or nothing of that kind.
        """
        value = self._take(name, default)
        if not isinstance(value, str) or len(value) > max_chars:
            raise _refused(name, value, f"a text of at most {max_chars} characters")
        if not value.isprintable():
            raise _refused(name, value, "a printable text")
        return value

    def whole(
        self,
        name: str,
        *,
        at_least: int = 0,
        at_most: int = MAX_SUM_UC,
        default: int | None = None,
    ) -> int:
        """Return an integer in [at_least, at_most].

        Raises:
            OperationRefused: missing without a default, or nothing of that kind.
        """
        value = self._take(name, default)
        if type(value) is not int or not at_least <= value <= at_most:
            raise _refused(name, value, f"an integer from {at_least} to {at_most}")
        return value

    def flag(self, name: str, *, default: bool | None = False) -> bool:
        """Return true or false; `default=None` demands it.

        Raises:
            OperationRefused: missing without a default, or nothing of that kind.
        """
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise _refused(name, value, "true or false")
        return value

    def raw(
        self,
        name: str,
        n_bytes: int | None = None,
        *,
        max_bytes: int = 1 << 20,
        default: bytes | None = None,
    ) -> bytes:
        """Return bytes given as lower-case hex: `n_bytes`, else up to `max_bytes`.

        Raises:
            OperationRefused: missing without a default, or nothing of that kind.
        """
        value = self._take(name, None if default is None else default.hex())
        what = f"{n_bytes} bytes" if n_bytes else f"at most {max_bytes} bytes"
        if not isinstance(value, str) or len(value) > 2 * (n_bytes or max_bytes):
            raise _refused(name, value, f"hex of {what}")
        try:
            found = bytes.fromhex(value)
        except ValueError as exc:
            raise _refused(name, value, f"hex of {what}") from exc
        if found.hex() != value or (n_bytes is not None and len(found) != n_bytes):
            raise _refused(name, value, f"hex of {what}")
        return found

    def rows(self, name: str, *, max_rows: int) -> list["Params"]:
        """Return a list of mappings, each to be read (and ended) like this one.

        Raises:
            OperationRefused: missing, too long, or nothing of that kind.
        """
        value = self._take(name, None)
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise _refused(name, value, "a list")
        if len(value) > max_rows:
            raise _refused(name, len(value), f"a list of at most {max_rows}")
        found = []
        for row in value:
            if not isinstance(row, Mapping):
                raise _refused(name, row, "a list of objects")
            found.append(Params(row))
        return found

    def done(self) -> None:
        """Refuse what was given and nobody read.

        Raises:
            OperationRefused: there is such a parameter.
        """
        if self._left:
            names = ", ".join(repr(name)[:_MAX_SHOWN] for name in sorted(self._left))
            raise OperationRefused(f"unknown parameters: {names[:200]}")

    def _take(self, name: str, default: object) -> object:
        value = self._left.pop(name, _MISSING)
        if value is not _MISSING:
            return value
        if default is None:
            raise OperationRefused(f"{name} is missing")
        return default


def _refused(name: str, value: object, expected: str) -> OperationRefused:
    return OperationRefused(f"{name} is {repr(value)[:_MAX_SHOWN]}, not {expected}")
