"""API keys by name: who may call, and as whom.

A file of keys has one `NAME:KEY` a line, or is one bare key, whose client is "key".
Blank lines and lines that begin with # do not count. Comparing takes the same time
whichever key is given, right or wrong; keys are nowhere shown, kept are their hashes.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping

from p2pmoe.errors import ConfigurationError

__all__ = ["ApiKeys"]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY = re.compile(r"[!-~]{1,512}")  # printable ASCII without spaces
_MAX_KEYS = 1000
_ALONE = "key"
_ADVICE = "write one NAME:KEY a line, or one key alone"


class ApiKeys:
    """The keys of one service."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        """Keep {name: key}."""
        self._hashes = {name: _hash(key) for name, key in keys.items()}

    @classmethod
    def parse(cls, text: str) -> "ApiKeys":
        """Read a file of keys.

        Raises:
            ConfigurationError: A line is no key, or a name or a key comes twice; the
                line's number is told, never the line.
        """
        lines = [
            (number, line.strip())
            for number, line in enumerate(text.splitlines(), start=1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if not lines or len(lines) > _MAX_KEYS:
            reason = f"{len(lines)} API keys where 1 to {_MAX_KEYS} are expected"
            raise ConfigurationError(reason, advice=_ADVICE)
        keys: dict[str, str] = {}
        for number, line in lines:
            name, key = _split(line, alone=len(lines) == 1)
            if not (_NAME.fullmatch(name) and _KEY.fullmatch(key)):
                raise ConfigurationError(
                    f"line {number} of the API keys is none", advice=_ADVICE
                )
            if name in keys or key in keys.values():
                raise ConfigurationError(
                    f"line {number} of the API keys repeats a name or a key",
                    advice="give each client a name and a key of its own",
                )
            keys[name] = key
        return cls(keys)

    def client(self, given: str) -> str | None:
        """Return the name whose key is given, or None."""
        hashed = _hash(given)
        found = None
        for name, own in self._hashes.items():
            if hmac.compare_digest(hashed, own):
                found = name
        return found


def _split(line: str, *, alone: bool) -> tuple[str, str]:
    name, colon, key = line.partition(":")
    if colon:
        return name.strip(), key.strip()
    return (_ALONE if alone else "", line)


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
