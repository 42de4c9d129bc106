"""What a worker keeps between its runs: this day's use, and its user's pause.

One small file of JSON in the worker's folder, written whole or not at all. What in it
cannot be is left out with one line in the log: a worker starts with a damaged one, with
the day begun anew. If it cannot be written (a full disk) the worker goes on.
"""

import json
import logging
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

__all__ = ["RECORD_FILE", "Remembered"]

logger = logging.getLogger("p2pmoe.governor")

RECORD_FILE: Final = "governor.json"
_MAX_BYTES: Final = 1 << 12
_MOST: Final = 1 << 62


@dataclass(slots=True, kw_only=True)
class _Record:
    """The file's fields. paused_until_us: 0 until it is resumed."""

    day: str = ""
    day_bytes: int = 0
    day_servings: int = 0
    day_uc: int = 0
    is_paused: bool = False
    paused_until_us: int = 0


class Remembered:
    """See the module. `path` None keeps nothing on disk."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._record = _read(path) if path is not None else _Record()
        self._is_saved = True

    @property
    def day_bytes(self) -> int:
        """Sent and received today."""
        return self._record.day_bytes

    @property
    def day_servings(self) -> int:
        """Served today."""
        return self._record.day_servings

    @property
    def day_uc(self) -> int:
        """Signed by backbones today, in micro-credits."""
        return self._record.day_uc

    def day_is(self, day: str) -> None:
        """Begin the day anew if it is another, by its local date."""
        if day != self._record.day:
            record = self._record
            record.day, self._is_saved = day, False
            record.day_bytes = record.day_servings = record.day_uc = 0

    def add(self, *, n_bytes: int = 0, servings: int = 0, uc: int = 0) -> None:
        """Count towards today."""
        if n_bytes or servings or uc:
            self._record.day_bytes += n_bytes
            self._record.day_servings += servings
            self._record.day_uc += uc
            self._is_saved = False

    def pause(self, until_us: int | None) -> None:
        """Note its user's pause; None: until resumed."""
        self._record.is_paused, self._record.paused_until_us = True, until_us or 0
        self._is_saved = False

    def resume(self) -> None:
        """Note that its user's pause is over."""
        self._is_saved = self._is_saved and not self._record.is_paused
        self._record.is_paused, self._record.paused_until_us = False, 0

    def paused_until(self, now_us: int) -> int | None:
        """Return when its user's pause ends, 0 for never; None: there is none."""
        record = self._record
        if record.is_paused and 0 < record.paused_until_us <= now_us:
            self.resume()
        return record.paused_until_us if record.is_paused else None

    def save(self) -> None:
        """Write what changed; blocking."""
        if self._path is None or self._is_saved:
            return
        draft = self._path.with_name(f"{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(asdict(self._record)), encoding="utf-8")
            draft.replace(self._path)
        except OSError as error:
            logger.info("%s is not kept: %s", self._path, error.strerror or error)
        else:
            self._is_saved = True


def _read(path: Path) -> _Record:
    record = _Record()
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        found = json.loads(raw) if len(raw) <= _MAX_BYTES else None
    except (FileNotFoundError, NotADirectoryError):  # nothing is there
        return record
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        logger.warning("%s cannot be read: the day begins anew", path)
        return record
    for field in fields(record):
        value = found.get(field.name)
        if type(value) is field.type and _may_be(value):
            setattr(record, field.name, value)
    return record


def _may_be(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= 10
    return isinstance(value, int) and 0 <= value < _MOST
