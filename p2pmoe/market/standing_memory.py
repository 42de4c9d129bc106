"""What of workers' standing lies in the market's file: one list of values a key.

    {peer: [domain, passes, vouched, mismatches, timeouts, reason, [case, ...],
    [accuser, ...]]}, bytes in hex

Keys of which nothing is known are left out. Of others the 10,000 that changed last are
kept; convicted ones apart from them, 100,000, so that no crowd of fresh keys makes the
market forget whom it refuses. Pure.
"""

from collections.abc import Mapping

from mobile_worker.standing import StandingReason
from p2pmoe.market.standing import Record
from relay.keys import PEER_ID_BYTES, PeerId

__all__ = ["StandingMemory"]

_MAX_KEYS = 10_000
_MAX_CONVICTED = 100_000
_MAX_COUNT = 1 << 62
_MAX_DOMAIN_CHARS = 120
_CASE_BYTES = 32
_N_VALUES = 8

Row = list[object]


class StandingMemory:
    """Records by key, the last changed last."""

    def __init__(self) -> None:
        """Begin with none."""
        self._keys: dict[PeerId, Record] = {}
        self._convicted: dict[PeerId, Record] = {}

    @property
    def records(self) -> Mapping[PeerId, Record]:
        """All that is remembered."""
        return {**self._keys, **self._convicted}

    def note(self, peer: PeerId, record: Record) -> bool:
        """Remember a key's record; False if there is nothing to remember."""
        if record == Record(domain=record.domain):
            return False
        self._keys.pop(peer, None)
        self._convicted.pop(peer, None)
        kept = self._convicted if record.cases else self._keys
        kept[peer] = record
        most = _MAX_CONVICTED if record.cases else _MAX_KEYS
        while len(kept) > most:
            del kept[next(iter(kept))]
        return True

    def encode(self) -> dict[str, Row]:
        """Return the file's part."""
        return {peer.hex(): _row(record) for peer, record in self.records.items()}

    @classmethod
    def parse(cls, part: object) -> "StandingMemory":
        """Read the file's part back.

        Raises:
            ValueError, TypeError: it is not of this form.
        """
        found = cls()
        if not isinstance(part, dict):
            raise TypeError("standing is no table")
        for peer, row in part.items():
            found.note(_peer(peer), _record(row))
        return found


def _row(record: Record) -> Row:
    return [
        record.domain,
        record.passes,
        record.vouched,
        record.mismatches,
        record.timeouts,
        int(record.reason),
        [case.hex() for case in record.cases],
        [peer.hex() for peer in record.accusers],
    ]


def _record(row: object) -> Record:
    if not isinstance(row, list) or len(row) != _N_VALUES:
        raise ValueError("a standing is no list of 8")
    domain, *counts, reason, cases, accusers = row
    if not isinstance(domain, str) or len(domain) > _MAX_DOMAIN_CHARS:
        raise ValueError("a domain is no short text")
    passes, vouched, mismatches, timeouts = (_count(each) for each in counts)
    return Record(
        domain=domain,
        passes=passes,
        vouched=vouched,
        mismatches=mismatches,
        timeouts=timeouts,
        reason=StandingReason(reason),
        cases=tuple(_bytes(case, _CASE_BYTES) for case in _list(cases)),
        accusers=tuple(_peer(peer) for peer in _list(accusers)),
    )


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < _MAX_COUNT:
        raise ValueError(f"{value!r:.40} is no count")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.40} is no list")
    return value


def _peer(value: object) -> PeerId:
    return PeerId(_bytes(value, PEER_ID_BYTES))


def _bytes(value: object, length: int) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no hex")
    raw = bytes.fromhex(value)
    if len(raw) != length:
        raise ValueError(f"{value[:40]!r} is not {length} bytes")
    return raw
