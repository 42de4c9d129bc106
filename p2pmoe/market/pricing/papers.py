"""Standby papers on their way to the ledger: kept as files until it has booked them.

    STANDBY, sent again each minute  ->  BOOKED "" or a refusal: dropped
                                     ->  BOOKED "later: ...": kept, sent again later

A paper is a file named by its hash, its 64-byte signature first, then its bytes: a
market that is killed sends it after its restart, and the ledger books it once. After 7
days the ledger takes it no more, and it is dropped. Of more than 512 the oldest go.

Blocks: reading and writing is for a thread.
"""

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ledger.errors import LedgerError
from ledger.standby import StandbyPaper
from mobile_worker.messages.audits import Standby
from p2pmoe.market.pricing.standby import SignedPaper

__all__ = ["Papers", "read_papers", "remove_paper", "write_paper"]

_LOG = logging.getLogger("p2pmoe.market")
_SIGNATURE_BYTES = 64
_MAX_PAPERS = 512
_MAX_PAPER_BYTES = 16 << 20
_KEPT_US = 7 * 86_400_000_000
_MAX_ASKED = 4
_AGAIN_S = 60.0
_LATER_S = 600.0
_LATER = "later:"


@dataclass(slots=True)
class _Waiting:
    paper: SignedPaper
    send_at: float = float("-inf")
    is_asked: bool = False  # and not answered


class Papers:
    """What is not booked yet, and when it is sent next. Pure."""

    def __init__(self, papers: Iterable[SignedPaper] = ()) -> None:
        self._waiting: dict[bytes, _Waiting] = {}
        for paper in sorted(papers, key=lambda each: each.to_us):
            self.add(paper)

    @property
    def waiting(self) -> Mapping[bytes, SignedPaper]:
        """All papers that the ledger has not booked, by hash."""
        return MappingProxyType({n: w.paper for n, w in self._waiting.items()})

    def add(self, paper: SignedPaper) -> list[bytes]:
        """Take a paper; return the names of those that there is no room for."""
        self._waiting[paper.name] = _Waiting(paper)
        over = list(self._waiting)[: max(0, len(self._waiting) - _MAX_PAPERS)]
        for name in over:
            del self._waiting[name]
        return over

    def due(self, now: float) -> list[Standby]:
        """Return what is to be sent now: what was not for the longest, oldest first."""
        ready = [w for w in self._waiting.values() if w.send_at <= now]
        n_asked = sum(w.is_asked and w.send_at > now for w in self._waiting.values())
        due: list[Standby] = []
        for waiting in sorted(ready, key=lambda each: each.send_at):
            if n_asked + len(due) >= _MAX_ASKED:
                break
            waiting.send_at, waiting.is_asked = now + _AGAIN_S, True
            paper = waiting.paper
            due.append(Standby(paper=paper.raw, signature=paper.signature))
        return due

    def booked(self, name: bytes, error: str, now: float) -> bool:
        """Take the ledger's answer; return whether the paper is done with."""
        waiting = self._waiting.get(name)
        if waiting is None:
            return False
        if error.startswith(_LATER):
            waiting.send_at, waiting.is_asked = now + _LATER_S, False
            return False
        if error:
            _LOG.warning("the ledger does not book a standby paper: %s", error)
        del self._waiting[name]
        return True

    def expire(self, wall_us: int) -> list[bytes]:
        """Drop what no ledger takes any more; return the names."""
        late_us = wall_us - _KEPT_US
        names = [n for n, w in self._waiting.items() if w.paper.to_us < late_us]
        for name in names:
            _LOG.warning("a standby paper of a week ago was never booked")
            del self._waiting[name]
        return names


def write_paper(folder: Path, paper: SignedPaper) -> None:
    """Make a paper durable, in a folder that is made if missing.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    path = _path(folder, paper.name)
    draft = path.with_suffix(".new")
    with draft.open("wb") as file:
        file.write(paper.signature + paper.raw)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_papers(folder: Path) -> list[SignedPaper]:
    """Return the papers of a folder; what is none is left alone, with a line."""
    found = []
    for path in sorted(folder.glob("*.paper"))[:_MAX_PAPERS]:
        try:
            with path.open("rb") as file:  # what is longer is no paper
                text = file.read(_SIGNATURE_BYTES + _MAX_PAPER_BYTES)
            signature, raw = text[:_SIGNATURE_BYTES], text[_SIGNATURE_BYTES:]
            to_us = StandbyPaper.parse(raw).to_us
        except (OSError, LedgerError) as error:
            _LOG.warning("%s is no standby paper: %s", path, error)
            continue
        found.append(SignedPaper(raw, signature, to_us))
    return found


def remove_paper(folder: Path, name: bytes) -> None:
    """Remove a paper's file, if it is there."""
    with contextlib.suppress(OSError):
        _path(folder, name).unlink(missing_ok=True)


def _path(folder: Path, name: bytes) -> Path:
    return folder / f"{name.hex()}.paper"
