"""What the market remembers over a restart: holdings and price epochs. A small file.

Everything else comes back by itself: workers offer again, backbones send their
manifests again. The file lets a worker get back the experts that lie in its store, and
keeps the epoch of each manifest's price table. It is replaced whole (written beside,
flushed to disk, renamed), so that kill -9 leaves the old or the new one. At most 10,000
workers are remembered, the longest unseen is forgotten first.

The file is JSON: {"version": 1, "holdings": {peer: [digest, ...]}, "prices":
{manifest hash: [epoch, base_uc]}}, all bytes in hex.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from p2pmoe.market.errors import MemoryFileBroken
from relay.keys import PeerId

__all__ = ["Remembered", "read_remembered", "write_remembered"]

_VERSION = 1
_MAX_WORKERS = 10_000
_MAX_MANIFESTS = 1_000


class Remembered:
    """Holdings by worker and price epochs by manifest; `version` counts changes."""

    def __init__(self) -> None:
        self.version = 0
        self._holdings: dict[PeerId, frozenset[bytes]] = {}
        self._prices: dict[bytes, tuple[int, int]] = {}

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

    def price_epoch(self, manifest_hash: bytes, base_uc: int) -> int:
        """Return the epoch of the manifest's table: the next one if the price changed.

        Epochs count from 1.
        """
        epoch, known_uc = self._prices.get(manifest_hash, (1, base_uc))
        if known_uc != base_uc:
            epoch += 1
        if self._prices.get(manifest_hash) != (epoch, base_uc):
            self._prices.pop(manifest_hash, None)
            self._prices[manifest_hash] = (epoch, base_uc)
            self.version += 1
            while len(self._prices) > _MAX_MANIFESTS:
                del self._prices[next(iter(self._prices))]
        return epoch

    def encode(self) -> str:
        """Return the file's text."""
        holdings = {
            worker.hex(): sorted(digest.hex() for digest in digests)
            for worker, digests in self._holdings.items()
        }
        prices = {name.hex(): list(found) for name, found in self._prices.items()}
        return json.dumps({"version": _VERSION, "holdings": holdings, "prices": prices})

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
            for name, (epoch, base_uc) in parts["prices"].items():
                found._prices[bytes.fromhex(name)] = (int(epoch), int(base_uc))
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as exc:
            raise MemoryFileBroken("not the market's memory file") from exc
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
