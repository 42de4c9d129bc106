"""Filing doubly signed vouchers with the ledger until it acknowledges them; no I/O.

Vouchers are cumulative, so those of one tab and epoch that wait together, and claim
under one grant, are filed as one: the newest, with the leaves of all of them; a final
that only a backbone signed goes by itself, since it is held. One filing at a time is
under way for each tab; without an answer it is sent again, with growing pauses, for
ever. The ledger answers a repeat with "duplicate", so nothing is
paid twice. A rejected voucher is not sent again by itself, but its leaves go along with
the next of its tab, which claims them too.

Spool payload of a record: u32 length of the voucher | voucher | worker's signature 64 |
backbone's signature 64, or zeros for a proposal | leaves.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum

from ledger.claims import FiledStatus
from ledger.errors import FormatRefused
from ledger.voucher import Voucher, VoucherKey, voucher_hash
from mobile_worker.messages.accounts import File
from mobile_worker.servings.chain import Proposal, Settled
from mobile_worker.servings.finals import TabMark

__all__ = [
    "FilingQueue",
    "Outcome",
    "SpoolKind",
    "latest_of",
    "pack_proposal",
    "pack_settled",
    "unpack_settled",
]

RETRY_S = 3.0
MAX_RETRY_S = 60.0
MAX_FLYING = 8
_MAX_LEAF_BYTES = 4 << 20  # of one filing
_LENGTH = struct.Struct(">I")
_SIGNATURE_BYTES = 64


class SpoolKind(IntEnum):
    """What an entry of the worker's spool is."""

    PROPOSAL = 1  # signed by this worker alone
    SETTLED = 2  # signed by both
    GRANT_USE = 3  # what was claimed under a grant
    TAB_MARK = 4  # the newest number signed in a tab and epoch
    TAB_OPENED = 5  # a mark of number 0: marks tell all that was signed in this tab


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a filing: entries that are done with, or why it is rejected.

    filed: the voucher that was filed, the newest of its tab.
    """

    filed: Settled
    entries: tuple[int, ...]
    rejected: str = ""


@dataclass(slots=True, kw_only=True)
class _Account:
    """The vouchers of one tab and epoch that are not filed yet, oldest first."""

    waiting: list[tuple[int, Settled]] = field(default_factory=list)
    n_rejected: int = 0  # of `waiting`, the first ones
    n_flying: int = 0  # of `waiting`, in the filing under way
    name: bytes = b""  # hash of the voucher under way
    due_at: float = 0.0
    pause_s: float = RETRY_S


class FilingQueue:
    """Everything that both signed and the ledger has not acknowledged."""

    def __init__(self, max_flying: int = MAX_FLYING) -> None:
        """Start empty; at most `max_flying` filings are under way at a time."""
        self._max_flying = max_flying
        self._accounts: dict[VoucherKey, _Account] = {}

    def __len__(self) -> int:
        """Return how many vouchers wait for an answer."""
        return sum(
            len(account.waiting) - account.n_rejected
            for account in self._accounts.values()
        )

    def add(self, entry: int, settled: Settled) -> None:
        """File a voucher; `entry` is its id in the spool.

        Raises:
            FormatRefused: the voucher does not parse.
        """
        key = Voucher.parse(settled.raw).key
        self._accounts.setdefault(key, _Account()).waiting.append((entry, settled))

    def due(self, now: float) -> list[File]:
        """Return the filings to send now."""
        files = []
        n_flying = sum(1 for a in self._accounts.values() if a.n_flying)
        for account in self._accounts.values():
            if now < account.due_at or len(account.waiting) == account.n_rejected:
                continue
            if account.n_flying == 0:
                if n_flying >= self._max_flying:
                    continue
                n_flying += 1
                account.n_flying = _how_many(account)
            files.append(self._file(account, now))
        return files

    def filed(
        self, name: bytes, status: int, reason: str, now: float
    ) -> Outcome | None:
        """Take the ledger's answer; None if it is for nothing under way or "retry"."""
        flying = {a.name: key for key, a in self._accounts.items() if a.n_flying}
        key = flying.get(name)
        if key is None:
            return None
        account = self._accounts[key]
        if status not in {
            FiledStatus.STORED,
            FiledStatus.DUPLICATE,
            FiledStatus.REJECTED,
        }:
            account.due_at = now + account.pause_s
            return None
        _, newest = account.waiting[account.n_flying - 1]
        if status == FiledStatus.REJECTED:
            rest = _Account(waiting=account.waiting, n_rejected=account.n_flying)
            self._accounts[key] = rest
            reason = reason or "no reason given"
            return Outcome(filed=newest, entries=(), rejected=reason)
        done = account.waiting[: account.n_flying]
        self._accounts[key] = _Account(waiting=account.waiting[account.n_flying :])
        if not self._accounts[key].waiting:
            del self._accounts[key]
        entries = tuple(entry for entry, _ in done)
        return Outcome(filed=newest, entries=entries)

    def hurry(self) -> None:
        """Send everything again at once: the way to the ledger is back."""
        for account in self._accounts.values():
            account.due_at = 0.0
            account.pause_s = RETRY_S

    def _file(self, account: _Account, now: float) -> File:
        account.due_at = now + account.pause_s
        account.pause_s = min(2 * account.pause_s, MAX_RETRY_S)
        part = [settled for _, settled in account.waiting[: account.n_flying]]
        newest = part[-1]
        account.name = voucher_hash(newest.raw)
        return File(
            voucher=newest.raw,
            worker_signature=newest.worker_signature,
            backbone_signature=newest.backbone_signature,
            leaves=b"".join(settled.leaves for settled in part),
        )


def pack_settled(settled: Settled) -> bytes:
    """Return the spool payload of a doubly signed voucher."""
    signatures = settled.worker_signature + settled.backbone_signature
    head = _LENGTH.pack(len(settled.raw)) + settled.raw
    return head + signatures + settled.leaves


def pack_proposal(proposal: Proposal) -> bytes:
    """Return the spool payload of a voucher that only this worker has signed."""
    return pack_settled(
        Settled(
            raw=proposal.raw,
            worker_signature=proposal.worker_signature,
            backbone_signature=bytes(_SIGNATURE_BYTES),
            leaves=proposal.leaves,
        )
    )


def unpack_settled(payload: bytes) -> Settled:
    """Read a spool payload back.

    Raises:
        FormatRefused: it is too short for what it says.
    """
    if len(payload) < _LENGTH.size:
        raise FormatRefused(f"a spooled voucher of {len(payload)} bytes")
    (length,) = _LENGTH.unpack_from(payload)
    first = _LENGTH.size + length
    second = first + _SIGNATURE_BYTES
    end = second + _SIGNATURE_BYTES
    if end > len(payload):
        raise FormatRefused(f"a spooled voucher of {len(payload)} bytes, needs {end}")
    return Settled(
        raw=payload[_LENGTH.size : first],
        worker_signature=payload[first:second],
        backbone_signature=payload[second:end],
        leaves=payload[end:],
    )


def latest_of(proposals: list[Proposal]) -> dict[tuple[SpoolKind, bytes], bytes]:
    """Return what is to be remembered of proposals: the newest of each grant, tab."""
    latest: dict[tuple[SpoolKind, bytes], bytes] = {}
    for proposal in proposals:
        if proposal.use is not None:
            latest[SpoolKind.GRANT_USE, proposal.use.name] = proposal.use.pack()
        mark = TabMark.of(proposal.voucher, proposal.name)
        latest[SpoolKind.TAB_MARK, mark.key] = mark.pack()
    return latest


def _how_many(account: _Account) -> int:
    """Return how many of the waiting vouchers go into one filing."""
    n_bytes, kind = 0, (b"", False)
    for at, (_, settled) in enumerate(account.waiting):
        n_bytes += len(settled.leaves)
        if at < account.n_rejected:
            continue
        named = Voucher.parse(settled.raw).grant_hash, not settled.worker_signature
        if at > account.n_rejected and (named != kind or n_bytes > _MAX_LEAF_BYTES):
            return at
        kind = named
    return len(account.waiting)
