"""What the market remembers over a restart: holdings and attendance. A small file.

Everything else comes back by itself: workers offer again, backbones send their
manifests again. Prices have a file of their own (`pricing/memory.py`). This one lets a
worker get back the experts that lie in its store. It is replaced whole (written beside,
flushed to disk, renamed), so that kill -9 leaves the old or the new one. At most 10,000
workers are remembered, the longest unseen is forgotten first. How reliably a worker is
there is written along with the next change of the rest.

The file is JSON: {"version": 1, "holdings": {peer: [digest, ...]}, "attendance":
{peer: [there_s, watched_s, departures]}, "standing": see `standing_memory.py`}, all
bytes in hex; "prices" of earlier releases are passed over.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from p2pmoe.market.attendance import Attendance, Sums
from p2pmoe.market.errors import MemoryFileBroken
from p2pmoe.market.standing import Record
from p2pmoe.market.standing_memory import StandingMemory
from relay.keys import PeerId

__all__ = ["Remembered", "read_remembered", "write_remembered"]

_VERSION = 1
_MAX_WORKERS = 10_000
_MAX_SUM = 1e9  # seconds; the sums fade, and lie far below


class Remembered:
    """Holdings by worker, and how it is there; `version` counts changes."""

    def __init__(self) -> None:
        self.version = 0
        self._holdings: dict[PeerId, frozenset[bytes]] = {}
        self.attendance = Attendance({})
        self.standing = StandingMemory()

    def note_standing(self, worker: PeerId, record: Record) -> None:
        """Remember how a worker stands, if there is anything to remember."""
        if self.standing.note(worker, record):
            self.version += 1

    def holdings(self, worker: PeerId) -> frozenset[bytes]:
        """Return the digests that the worker last reported held."""
        return self._holdings.get(worker, frozenset())

    def note_holdings(self, worker: PeerId, digests: Iterable[bytes]) -> None:
        """Remember what the worker holds now; it becomes the most recently seen."""
        held = frozenset(digests)
        if self._holdings.pop(worker, None) != held:
            self.version += 1
        self._holdings[worker] = held
        while len(self._holdings) > _MAX_WORKERS:
            del self._holdings[next(iter(self._holdings))]

    def encode(self) -> str:
        """Return the file's text."""
        holdings = {
            worker.hex(): sorted(digest.hex() for digest in digests)
            for worker, digests in self._holdings.items()
        }
        attendance = {
            worker.hex(): [round(sums.there_s), round(sums.watched_s), departures]
            for worker, sums in self.attendance.newest(_MAX_WORKERS)
            for departures in (round(sums.n_departures, 3),)
        }
        return json.dumps(
            {
                "version": _VERSION,
                "holdings": holdings,
                "attendance": attendance,
                "standing": self.standing.encode(),
            }
        )

    @classmethod
    def parse(cls, text: str) -> "Remembered":
        """Read the file's text back.

        Raises:
            MemoryFileBroken: it is not of this form.
        """
        found = cls()
        try:
            parts = json.loads(text)
            if parts["version"] != _VERSION:
                raise MemoryFileBroken(f"version {parts['version']!r} is unknown")
            for worker, digests in parts["holdings"].items():
                held = frozenset(bytes.fromhex(digest) for digest in digests)
                found._holdings[PeerId(bytes.fromhex(worker))] = held
            found.attendance = Attendance(_sums(parts.get("attendance", {})))
            found.standing = StandingMemory.parse(parts.get("standing", {}))
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as exc:
            raise MemoryFileBroken("not the market's memory file") from exc
        return found


def _sums(parts: dict[str, list[float]]) -> dict[PeerId, Sums]:
    found = {}
    for worker, numbers in parts.items():
        sums = Sums(*(float(number) for number in numbers))
        if not all(0.0 <= n < _MAX_SUM for n in numbers):
            raise MemoryFileBroken(f"attendance {numbers!r} is out of bounds")
        found[PeerId(bytes.fromhex(worker))] = sums
    return found


def read_remembered(path: Path) -> Remembered:
    """Read the file; nothing is remembered if there is none.

    Raises:
        MemoryFileBroken: it cannot be read, or is of another form.
    """
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return Remembered()
    except (OSError, UnicodeDecodeError) as exc:
        raise MemoryFileBroken(f"cannot read {path}: {exc}") from exc
    try:
        return Remembered.parse(text)
    except MemoryFileBroken as exc:
        raise MemoryFileBroken(f"{path}: {exc}") from exc


def write_remembered(path: Path, text: str) -> None:
    """Replace the file. Blocks: call it in a thread.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    draft = path.with_name(path.name + ".new")
    with draft.open("w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
