r"""The bytes of a period's statements, and the one hash that stands for all of them.

Contract: a statement's bytes say what a worker's accounts held and what moved, nothing
that could change after the period (states of receipts do). One encoding, big-endian:

    magic "PMST" | version u8 | worker 32 | start_us i64 | end_us i64
    | opening 4 * i64 | moved 11 * i64 | closing 4 * i64

with opening and closing = worker_pending, worker_held, worker_available,
payout_clearing, and moved = the sums of earn, fee, hold, settle, reverse, unhold,
forfeit, pay, paid, unpay, round. Version 2 has a twelfth, standby, and is the one in
use where that is not zero; else it is version 1. `statement_root` is the RFC 6962 tree
hash (SHA-256) over the statements of all workers that had an account before the
period's end, in ascending order of their ids; SHA-256 of nothing if there are none. A
closed period keeps it, so that nobody changes a statement afterwards.
"""

import struct
from collections.abc import Sequence
from hashlib import sha256

from sqlalchemy import Connection

from ledger.accounts import TransferCode
from ledger.flows import WORKER_CODES, Flows, WorkerBalances, worker_flows
from ledger.periods import Period

__all__ = ["STATEMENT_BYTES", "pack_statement", "statement_hash", "statement_root"]

_MAGIC = b"PMST"
_STATEMENT = struct.Struct(">4sB32sqq4q11q4q")
_STATEMENT_2 = struct.Struct(">4sB32sqq4q12q4q")
STATEMENT_BYTES = _STATEMENT.size


def pack_statement(worker: bytes, period: Period, flows: Flows) -> bytes:
    """Return the canonical bytes of a worker's statement."""
    moved = [flows.moved.get(code, 0) for code in WORKER_CODES]
    has_standby = flows.moved.get(TransferCode.STANDBY, 0) > 0
    layout = _STATEMENT_2 if has_standby else _STATEMENT
    return layout.pack(
        _MAGIC,
        2 if has_standby else 1,
        worker,
        period.start_us,
        period.end_us,
        *_four(flows.opening),
        *(moved if has_standby else moved[:-1]),  # standby is the last
        *_four(flows.closing),
    )


def statement_hash(packed: bytes) -> bytes:
    """Return the 32-byte leaf hash of a packed statement."""
    return sha256(b"\x00" + packed).digest()


def statement_root(connection: Connection, period: Period) -> bytes:
    """Return the 32-byte root over all workers' statements of a period."""
    flows = worker_flows(connection, period)
    return _tree_hash(
        [
            statement_hash(pack_statement(worker, period, flows[worker]))
            for worker in sorted(flows)
        ]
    )


def _four(balances: WorkerBalances) -> tuple[int, int, int, int]:
    return (
        balances.pending_uc,
        balances.held_uc,
        balances.available_uc,
        balances.clearing_uc,
    )


def _tree_hash(hashes: Sequence[bytes]) -> bytes:
    """Return the tree hash over leaf hashes (RFC 6962, section 2.1)."""
    if not hashes:
        return sha256().digest()
    level = list(hashes)
    while len(level) > 1:  # an odd last one moves up as it is: the same tree
        joined = [
            sha256(b"\x01" + left + right).digest()
            for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = joined + ([level[-1]] if len(level) % 2 else [])
    return level[0]
