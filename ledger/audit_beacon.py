"""Audit: beacons are the ledger's, chose what they had to, and convicted whom they did.

Contract: every beacon's signature is checked and follows the one before; what each had
to choose from the filings between its borders is derived again, so that no serving was
spared and none was picked on. A decided audit follows from its words; a conviction has
its rows, and says whether it reversed the voucher; what that means for money is checked
in `ledger.audit_closings`. That the words are of other machines than the worker's is
the market's to know, and whether they are right anybody's who has the expert and the
rows. Reads only; raises `DifferenceFound`.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Row, select

from ledger.audit_books import (
    Books,
    Conviction,
    DisputeFound,
    holds,
    naming,
    same,
)
from ledger.beacon import (
    TRUSTED_PASSES,
    Beacon,
    choose_rows,
    places_of,
    verify_beacon,
    voucher_seed,
)
from ledger.beacon_words import AuditState, parse_words, weigh_words
from ledger.database import LedgerFolder
from ledger.errors import DifferenceFound, LeavesPruned
from ledger.leaf import LEAF_BYTES, LEAF_STRUCT, Leaf
from ledger.leaf_files import LeafPlace, read_leaves
from ledger.schema import filing, voucher
from ledger.schema_beacon import audit, beacon
from ledger.schema_closing import checkpoint

__all__ = ["check_beacons", "check_convictions"]

_NONE = bytes(32)
_ROWS = 6  # place in LEAF_STRUCT
_BY_WORDS = {AuditState.PASSED, AuditState.FAILED}
_WITHOUT_WORDS = {AuditState.OPEN, AuditState.UNOPENED, AuditState.UNASKED}


class _Passes:
    """How many audits each worker had passed, at any instant."""

    def __init__(self, connection: Connection) -> None:
        self._decided: dict[str, defaultdict[bytes, list[int]]] = {
            state.value: defaultdict(list) for state in _BY_WORDS
        }
        decided = select(audit.c.worker, audit.c.state, audit.c.decided_us).where(
            audit.c.state.in_([state.value for state in _BY_WORDS]),
            audit.c.decided_us.is_not(None),
        )
        for worker, state, decided_us in connection.execute(
            decided.order_by(audit.c.decided_us)
        ):
            self._decided[state][worker].append(decided_us)

    def of(self, worker: bytes, before_us: int) -> int:
        """Return them, counted since the last conviction."""
        passed = self._decided[AuditState.PASSED.value][worker]
        failed = self._decided[AuditState.FAILED.value][worker]
        upto = bisect_left(failed, before_us)
        since_us = failed[upto - 1] if upto else 0
        n_after = bisect_left(passed, before_us) - bisect_left(passed, since_us + 1)
        return min(TRUSTED_PASSES, max(0, n_after))


def check_beacons(connection: Connection, folder: LedgerFolder, books: Books) -> None:
    """Check every beacon in order, and every audit."""
    heads = {
        row.size: row.root
        for row in connection.execute(select(checkpoint.c.size, checkpoint.c.root))
    }
    passes = _Passes(connection)
    stored = _audits_by_voucher(connection)
    value, upto_us, next_id = _NONE, 0, 1
    rows = connection.execute(select(beacon).order_by(beacon.c.number)).all()
    for number, row in enumerate(rows, start=1):
        name = f"beacon {row.number}"
        same(name, "number", row.number, number)
        same(name, "begin", row.from_us, row.upto_us if number == 1 else upto_us)
        holds(name, "it goes on", row.from_us <= row.upto_us)
        is_without = (row.log_size, row.log_root) == (0, _NONE)  # there was no head
        head = _NONE if is_without else heads.get(row.log_size)
        same(name, "root of the log", row.log_root, head)
        value, upto_us = _checked_value(name, row, value, books), row.upto_us
        for filed in _filings(connection, row):
            seed = voucher_seed(value, filed.content_hash)
            chosen = choose_rows(seed, filed.rows, passes.of(filed.worker, upto_us))
            found = stored.pop(filed.content_hash, [])
            _check_chosen(filed, chosen, found, folder, books)
            for each in found:
                same(f"audit {each.id}", "number", each.id, next_id)
                next_id += 1
                _check_audit(connection, each, row, books)
        books.report.beacons += 1
    for rest in stored.values():
        raise DifferenceFound(f"audit {rest[0].id}: no beacon chose it")


def check_convictions(books: Books) -> None:
    """Check that every conviction took back what was still there; after closings."""
    for each in books.convictions:
        name = f"audit {each.id}"
        closed = books.closed.get(each.voucher_id)
        if closed is None or closed.closed_us > each.decided_us:
            raise DifferenceFound(f"{name}: its voucher was not closed by it")
        if not each.is_reversed:
            ended_us = closed.released_us
            was_over = ended_us is not None and ended_us <= each.decided_us
            holds(name, "nothing was left to take back", was_over)


def _checked_value(name: str, row: Row[Any], previous: bytes, books: Books) -> bytes:
    same(name, "previous", row.previous, previous)
    with naming(name):
        cast = Beacon(
            network=books.owner.network,
            number=row.number,
            previous=row.previous,
            log_size=row.log_size,
            log_root=row.log_root,
        )
        return verify_beacon(cast, row.signature, books.owner.ledger)


def _audits_by_voucher(connection: Connection) -> dict[bytes, list[Row[Any]]]:
    columns = [column for column in audit.c if column.name != "opened"]
    found: defaultdict[bytes, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(select(*columns).order_by(audit.c.id)):
        found[row.content_hash].append(row)
    return dict(found)


def _filings(connection: Connection, row: Row[Any]) -> Sequence[Row[Any]]:
    statement = (
        select(filing, voucher.c.worker)
        .join(voucher, voucher.c.id == filing.c.voucher_id)
        .where(filing.c.posted_us >= row.from_us, filing.c.posted_us < row.upto_us)
        .where(filing.c.leaves > 0)
        .order_by(filing.c.posted_us, filing.c.content_hash)
    )
    return connection.execute(statement).all()


def _check_chosen(
    filed: Row[Any],
    chosen: tuple[int, ...],
    found: Sequence[Row[Any]],
    folder: LedgerFolder,
    books: Books,
) -> None:
    """Check that just these leaves of a filing are audited, to the bit."""
    name = f"voucher {filed.content_hash[:4].hex()}, its audits"
    places = [each.place for each in found]
    block = _leaves(filed, folder) if books.is_full and chosen else None
    if filed.rows == filed.leaves:
        same(name, "places", places, list(chosen))
    elif block is not None:
        counts = [fields[_ROWS] for fields in LEAF_STRUCT.iter_unpack(block)]
        same(name, "places", places, list(places_of(chosen, counts)))
    else:  # the leaves are gone, or were not to be read
        holds(name, "as many as can be", bool(chosen) == bool(places))
        holds(name, "no more than chosen", len(places) <= len(chosen))
    for each in found:
        same(f"audit {each.id}", "voucher", each.voucher_id, filed.voucher_id)
        if block is not None:
            at = each.place * LEAF_BYTES
            wanted = block[at : at + LEAF_BYTES]
            same(f"audit {each.id}", "leaf", each.leaf, wanted)


def _leaves(filed: Row[Any], folder: LedgerFolder) -> bytes | None:
    """Return a filing's leaves, None if they are pruned."""
    place = LeafPlace(filed.leaf_file, filed.leaf_offset)
    try:
        return read_leaves(folder.leaves, place, filed.leaves * LEAF_BYTES)
    except LeavesPruned:
        return None


def _check_audit(
    connection: Connection, row: Row[Any], cast: Row[Any], books: Books
) -> None:
    """Check what one audit says, and note what it means for the money."""
    name = f"audit {row.id}"
    filed = books.vouchers[row.voucher_id]
    same(name, "beacon", row.beacon, cast.number)
    same(name, "drawn", row.posted_us, cast.upto_us)
    same(name, "worker", row.worker, filed.worker)
    same(name, "backbone", row.backbone, filed.backbone)
    with naming(name):
        leaf, words = Leaf.parse(row.leaf), parse_words(row.words)
    same(name, "tab", leaf.tab, filed.tab)
    holds(name, "a known state", row.state in set(AuditState))
    state = AuditState(row.state)
    is_open = row.decided_us is None
    same(name, "decided", is_open, state is AuditState.OPEN)
    holds(name, "decided after it was drawn", is_open or row.decided_us >= cast.upto_us)
    referees = {word.referee for word in words}
    others = len(referees) == len(words) and row.worker not in referees
    holds(name, "its referees are others, each once", others)
    weighed = weigh_words(words, leaf.out_hash)
    if state in _BY_WORDS:
        before = weigh_words(words[:-1], leaf.out_hash)
        same(name, "outcome", (state, before), (weighed, AuditState.OPEN))
    else:
        holds(name, "words that decide nothing", weighed not in _BY_WORDS)
        holds(name, "no words", not words or state not in _WITHOUT_WORDS)
    _note_failed(connection, name, row, leaf, books)
    books.report.audits += 1


def _note_failed(
    connection: Connection, name: str, row: Row[Any], leaf: Leaf, books: Books
) -> None:
    """Check the rows of a conviction, and note what it takes."""
    opened = connection.execute(
        select(audit.c.opened).where(audit.c.id == row.id)
    ).scalar_one()
    is_failed = row.state == AuditState.FAILED
    same(name, "rows are kept", opened is not None, is_failed)
    same(name, "reversed", row.is_reversed, int(bool(row.is_reversed) and is_failed))
    if opened is None:
        return
    same(name, "rows", sha256(opened).digest()[: len(leaf.x_hash)], leaf.x_hash)
    books.equivocations[row.worker].append(row.decided_us)
    conviction = DisputeFound(
        id=row.id,
        is_pending=False,
        is_lost_by_worker=True,
        decided_us=row.decided_us,
        by="audit",
    )
    if row.is_reversed:
        books.disputes[row.voucher_id].append(conviction)
    books.convictions.append(
        Conviction(row.id, row.voucher_id, row.decided_us, bool(row.is_reversed))
    )
