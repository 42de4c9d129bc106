"""Verify a ledger's folder: re-derive every balance from leaves and signatures.

Contract: read-only, and by its own path: writer, desk, settlement and closing are not
used to decide; what is shared are the formats, their signatures and the pure tally of
leaves. The parts run in order: prices, policies and grants (signatures), vouchers (both
signatures, leaves -> root, ranges, rows, amounts against the price table), filings
(what each added), beacons and audits (drawn again), standby pay (each amount re-
derived), transfers (each explained, its id re-derived, none missing), balances
(recomputed from the transfers). The first difference raises `DifferenceFound`, which
names what differs; nothing is repaired. The folder must name the ids that the caller
expects, else everything else would only prove that somebody's books are consistent.
"""

from collections.abc import Callable, Iterable

from sqlalchemy import Connection

from ledger.audit_beacon import check_beacons, check_convictions
from ledger.audit_books import AuditReport, Books, same
from ledger.audit_closings import check_closings
from ledger.audit_evidence import (
    check_grant_states,
    check_grants,
    check_policies,
    check_prices,
)
from ledger.audit_log import check_log, read_shown
from ledger.audit_papers import (
    check_disputes,
    check_equivocations,
    check_one_sided,
    check_rejected,
)
from ledger.audit_payouts import check_payouts
from ledger.audit_periods import check_periods
from ledger.audit_standby import check_standby
from ledger.audit_transfers import check_balances, check_transfers
from ledger.audit_vouchers import check_vouchers
from ledger.database import LedgerFolder, LedgerIdentity, Reader
from ledger.errors import DifferenceFound
from ledger.log.checkpoint import Checkpoint

__all__ = ["AuditReport", "check_books", "verify_ledger"]


def verify_ledger(
    reader: Reader,
    expected: LedgerIdentity,
    *,
    kept: Iterable[bytes] = (),
    is_full: bool = True,
    tell: Callable[[str, float], None] | None = None,
) -> AuditReport:
    """Re-derive everything in a ledger's folder.

    Args:
        reader: the folder.
        expected: whose ledger it must be.
        kept: checkpoints that were kept elsewhere; the log must still contain them.
        is_full: read the leaves; else what is said of them is only added up.
        tell: called with what is being checked and the share done, 0 to 1.

    Raises:
        DifferenceFound: at the first thing that is not as it must be.
        StoreUnavailable: the folder cannot be read.
    """
    same("folder", "owner", reader.identity, expected)
    books = Books(expected, is_full=is_full)
    if tell is not None:
        books.tell = tell
    shown = read_shown(reader.folder.log, books)
    with reader.session() as connection:
        check_books(connection, reader.folder, books, shown, kept)
    return books.report


def check_books(
    connection: Connection,
    folder: LedgerFolder,
    books: Books,
    shown: Checkpoint | None,
    kept: Iterable[bytes] = (),
) -> None:
    """Run every part of the audit, in order, on one moment of a database.

    Args:
        connection: a reading session.
        folder: where leaves and log lie.
        books: empty; its report is filled.
        shown: the checkpoint that the log showed before the session began.
        kept: as for `verify_ledger`.

    Raises:
        DifferenceFound: see there.
    """
    try:
        check_prices(connection, books)
        check_policies(connection, books)
        check_grants(connection, books)
        check_vouchers(connection, folder, books)
        check_beacons(connection, folder, books)
        check_disputes(connection, books)
        check_equivocations(connection, books)
        check_rejected(connection, books)
        books.tell("closings", 0.0)
        check_closings(connection, books)
        check_convictions(books)
        check_one_sided(connection, books)
        books.tell("standby pay", 0.0)
        check_standby(connection, books)
        books.tell("log", 0.0)
        check_log(connection, folder.log, books, shown, kept)
        check_grant_states(connection, books)
        books.tell("payouts and transfers", 0.0)
        check_payouts(connection, books)
        check_transfers(connection, books)
        check_balances(connection, books)
        check_periods(connection, books)
    except (ArithmeticError, LookupError, TypeError, ValueError) as exc:
        # What the schema would never hold, put there by hand.
        raise DifferenceFound(f"the database holds what has no sense: {exc}") from exc
