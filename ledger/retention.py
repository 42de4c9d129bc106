"""Leaves in closed files: packed first, pruned when the policy no longer needs them.

Contract: a leaf file that a later one followed is closed and never changes. It is
packed: the copy is written, read back, its digest committed, and only then is the plain
file removed. It is pruned when every voucher that has a leaf in it is closed, is not
disputed, and closed longer ago than the policy it closed under keeps leaves
(`Policy.retention_us`, at least the dispute window): the row is committed first, then
the mark `NNNNNNNN.pruned` takes the file's place. Roots, vouchers and the sums by
expert stay for ever. Every step may be cut short and is finished by the next run. Files
are packed on the caller's thread; the writer gets one short job a file.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, or_, select, update

from ledger.database import LedgerFolder, Reader
from ledger.desk import Desk
from ledger.leaf import LEAF_BYTES
from ledger.leaf_files import leaf_path, mark_pruned, packed_path
from ledger.leaf_packs import pack_leaf_file, packed_length
from ledger.policy import Policy
from ledger.schema import filing, leaf_file
from ledger.schema_closing import closing, leaf_file_state, policy

__all__ = ["RetentionPlan", "RetentionReport", "plan_retention", "retain"]

PACKED, PRUNED = "packed", "pruned"
_MAX_FILES = 16  # in one run: an hour's work is never all on one day
Submit = Callable[[Callable[[Desk], None]], Future[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """Which leaf files are due, by number, and what was begun earlier."""

    pack: tuple[int, ...]
    prune: tuple[int, ...]
    lengths: dict[int, int]  # committed bytes of every file
    states: dict[int, str]  # packed, pruned
    digests: dict[int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """What one run did."""

    packed: tuple[int, ...] = ()
    pruned: tuple[int, ...] = ()


def plan_retention(connection: Connection, now_us: int) -> RetentionPlan:
    """Say which files may be packed or pruned at an instant; changes nothing."""
    rows = connection.execute(select(leaf_file)).all()
    lengths = {row.number: row.length_bytes for row in rows}
    known = connection.execute(select(leaf_file_state)).all()
    states = {row.number: row.state for row in known}
    is_closed = set(lengths) - {max(lengths, default=0)}
    pack = [
        number
        for number in sorted(is_closed)
        if number not in states and lengths[number] % LEAF_BYTES == 0
    ]
    candidates = {n for n in is_closed if states.get(n) == PACKED}
    prune = candidates - _still_needed(connection, now_us) if candidates else set()
    return RetentionPlan(
        pack=tuple(pack[:_MAX_FILES]),
        prune=tuple(sorted(prune)[:_MAX_FILES]),
        lengths=lengths,
        states=states,
        digests={row.number: row.digest for row in known},
    )


def retain(folder: LedgerFolder, submit: Submit, now_us: int) -> RetentionReport:
    """Pack and prune what is due, a few files at a time.

    Args:
        folder: the ledger's folder.
        submit: queues a job on the writer and returns its future.
        now_us: the ledger's time.

    Raises:
        LedgerError, OSError: a file or the database refused; nothing is lost, and the
            next run goes on from there.
    """
    with Reader(folder.path).session() as connection:
        plan = plan_retention(connection, now_us)
    _finish(folder, plan)
    for number in plan.pack:
        _pack(folder, submit, number, plan.lengths[number])
    for number in plan.prune:
        digest = plan.digests[number]
        submit(_noting(number, PRUNED, digest)).result()
        mark_pruned(folder.leaves, number, digest)
    return RetentionReport(packed=plan.pack, pruned=plan.prune)


def _pack(folder: LedgerFolder, submit: Submit, number: int, n_bytes: int) -> None:
    plain, packed = (path(folder.leaves, number) for path in (leaf_path, packed_path))
    digest = pack_leaf_file(plain, packed, n_bytes)
    submit(_noting(number, PACKED, digest)).result()
    plain.unlink()


def _finish(folder: LedgerFolder, plan: RetentionPlan) -> None:
    """Do what an earlier run committed and did not come to."""
    for number, state in plan.states.items():
        plain = leaf_path(folder.leaves, number)
        if state == PRUNED:
            mark_pruned(folder.leaves, number, plan.digests[number])
        elif plain.exists():
            packed = packed_path(folder.leaves, number)
            if packed.exists() and packed_length(packed) == plan.lengths[number]:
                plain.unlink()


def _noting(number: int, state: str, digest: bytes) -> Callable[[Desk], None]:
    def job(desk: Desk) -> None:
        values = {"state": state, "digest": digest, "changed_us": desk.now_us}
        changed = desk.connection.execute(
            update(leaf_file_state)
            .where(leaf_file_state.c.number == number)
            .values(values)
        )
        if changed.rowcount == 0:
            desk.connection.execute(
                insert(leaf_file_state).values(number=number, **values)
            )

    return job


def _still_needed(connection: Connection, now_us: int) -> set[int]:
    """Return the files with a leaf of a voucher that is not over yet."""
    kept_us = {
        row.hash: Policy.parse(row.raw).retention_us
        for row in connection.execute(select(policy.c.hash, policy.c.raw))
    }
    is_over = [
        (closing.c.policy_hash == policy_hash)
        & (closing.c.closed_us < now_us - retention_us)
        & (closing.c.state.in_(("released", "reversed")))
        for policy_hash, retention_us in kept_us.items()
    ]
    over = (
        select(filing.c.leaf_file, func.count().label("filings"))
        .join(closing, closing.c.voucher_id == filing.c.voucher_id)
        .where(filing.c.leaves > 0, or_(*is_over))
        .group_by(filing.c.leaf_file)
    )
    counted: dict[int, int] = {}
    if is_over:
        counted = {row[0]: row[1] for row in connection.execute(over)}
    of_file = (
        select(filing.c.leaf_file, func.count())
        .where(filing.c.leaves > 0)
        .group_by(filing.c.leaf_file)
    )
    return {
        number
        for number, n_filings in connection.execute(of_file)
        if n_filings > counted.get(number, 0)
    }
