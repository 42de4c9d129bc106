"""Verify a ledger's folder: re-derive every balance from leaves and signatures.

Contract: read-only, and by its own path: writer, desk and settlement are not used; what
is shared are the formats, their signatures and the pure tally of leaves. In order
prices and grants (signatures), vouchers (both signatures, leaves -> root, ranges, rows,
amounts against the price table), filings (what each added sums to the voucher),
transfers (each explained by a filing, grant or credit, its id re-derived), balances
(recomputed from the transfers). The first difference raises `DifferenceFound`, which
names what differs; nothing is repaired. The folder must name the ids that the caller
expects, else everything else would only prove that somebody's books are consistent.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, select

from ledger.accounts import (
    EXTERNAL_OWNER,
    AccountKind,
    TransferCode,
    transfer_id,
)
from ledger.database import LedgerFolder, LedgerIdentity, Reader
from ledger.errors import DifferenceFound, RemoteError
from ledger.export import leaves_of
from ledger.grant import Grant, verify_grant
from ledger.prices import PriceTable, verify_price_table
from ledger.schema import (
    account,
    filing,
    grant,
    price_table,
    transfer,
    voucher,
)
from ledger.tally import TabTerms, Tally
from ledger.voucher import SignedVoucher, Voucher, voucher_hash

__all__ = ["AuditReport", "verify_ledger"]


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """What was re-derived; all counts are of things that were found right."""

    price_tables: int = 0
    grants: int = 0
    vouchers: int = 0
    receipts: int = 0  # leaves: servings with a receipt
    transfers: int = 0
    accounts: int = 0
    earned_uc: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    """A transfer that must be there."""

    code: str
    debit: tuple[bytes, str]
    credit: tuple[bytes, str]
    amount_uc: int
    reference: bytes


@dataclass(slots=True)
class _Books:
    """What is known so far."""

    owner: LedgerIdentity
    prices: dict[bytes, PriceTable] = field(default_factory=dict)
    grants: dict[bytes, Grant] = field(default_factory=dict)
    used_uc: defaultdict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    expected: dict[bytes, _Expected] = field(default_factory=dict)  # by transfer id

    def expect(self, key: bytes, wanted: _Expected) -> None:
        self.expected[transfer_id(TransferCode(wanted.code), key)] = wanted


def verify_ledger(reader: Reader, expected: LedgerIdentity) -> AuditReport:
    """Re-derive everything in a ledger's folder.

    Raises:
        DifferenceFound: at the first thing that is not as it must be.
        StoreUnavailable: the folder cannot be read.
    """
    _same("folder", "owner", reader.identity, expected)
    report = AuditReport()
    books = _Books(expected)
    with reader.session() as connection:
        _check_prices(connection, books, report)
        _check_grants(connection, books, report)
        _check_vouchers(connection, reader.folder, books, report)
        _check_grant_states(connection, books)
        _check_transfers(connection, books, report)
        _check_balances(connection, report)
    return report


def _check_prices(connection: Connection, books: _Books, report: AuditReport) -> None:
    for row in connection.execute(select(price_table)):
        name = f"price table {row.hash[:4].hex()}"
        with _naming(name):
            table = verify_price_table(row.raw, row.signature, books.owner.market)
        _same(name, "hash", row.hash, table.content_hash)
        _same(name, "network", table.network, books.owner.network)
        _same(name, "epoch", row.epoch, table.epoch)
        books.prices[row.hash] = table
        report.price_tables += 1


def _check_grants(connection: Connection, books: _Books, report: AuditReport) -> None:
    for row in connection.execute(select(grant)):
        name = f"grant {row.hash[:4].hex()}"
        with _naming(name):
            granted = verify_grant(row.raw, row.signature, books.owner.ledger)
        _same(name, "hash", row.hash, granted.content_hash)
        for column in (
            "worker",
            "backbone",
            "serial",
            "price_table_hash",
            "ceiling_uc",
            "expiry_us",
        ):
            _same(name, column, getattr(row, column), getattr(granted, column))
        _same(name, "network", granted.network, books.owner.network)
        _same(name, "price table", row.price_table_hash in books.prices, True)
        books.grants[row.hash] = granted
        wanted = _Expected(
            code=TransferCode.RESERVE,
            debit=(granted.backbone, AccountKind.CLIENT_DEPOSIT),
            credit=(granted.backbone, AccountKind.CLIENT_RESERVED),
            amount_uc=granted.ceiling_uc,
            reference=row.hash,
        )
        books.expect(row.hash, wanted)
        report.grants += 1


def _check_vouchers(
    connection: Connection, folder: LedgerFolder, books: _Books, report: AuditReport
) -> None:
    for row in connection.execute(select(voucher).order_by(voucher.c.id)).all():
        name = f"voucher {row.content_hash[:4].hex()} of tab {row.tab.hex()}"
        signatures = (row.worker_signature, row.backbone_signature)
        with _naming(name):
            signed = SignedVoucher(
                raw=row.raw,
                worker_signature=signatures[0],
                backbone_signature=signatures[1],
            ).verified()
        _check_columns(name, row, signed)
        if signed.price_table_hash not in books.prices:
            raise DifferenceFound(f"{name}: its price table is missing")
        with _naming(name):
            leaves = leaves_of(connection, folder, row.id)
            tally = Tally(TabTerms.of(signed), books.prices[signed.price_table_hash])
            tally.add(b"".join(leaves))
            tally.check(signed)
        _check_filings(connection, name, row, signed, books)
        report.vouchers += 1
        report.receipts += len(leaves)
        report.earned_uc += signed.amount_uc


def _check_columns(name: str, row: Row[Any], signed: Voucher) -> None:
    for column in (
        "worker",
        "backbone",
        "tab",
        "price_epoch",
        "number",
        "leaves",
        "rows",
        "amount_uc",
    ):
        _same(name, column, getattr(row, column), getattr(signed, column))
    _same(name, "hash", row.content_hash, voucher_hash(row.raw))


def _check_filings(
    connection: Connection, name: str, row: Row[Any], signed: Voucher, books: _Books
) -> None:
    """Check that what each filing added sums to the voucher, under fitting grants."""
    leaves = rows = amount_uc = number = 0
    last_hash = b""
    for filed in connection.execute(
        select(filing).where(filing.c.voucher_id == row.id).order_by(filing.c.number)
    ):
        granted = books.grants.get(filed.grant_hash)
        if granted is None or (granted.worker, granted.backbone) != (
            signed.worker,
            signed.backbone,
        ):
            raise DifferenceFound(f"{name}: filing {filed.number} has no such grant")
        leaves, rows = leaves + filed.leaves, rows + filed.rows
        amount_uc += filed.amount_uc
        number, last_hash = filed.number, filed.content_hash
        books.used_uc[filed.grant_hash] += filed.amount_uc
        if filed.amount_uc:
            wanted = _Expected(
                code=TransferCode.EARN,
                debit=(signed.backbone, AccountKind.CLIENT_RESERVED),
                credit=(signed.worker, AccountKind.WORKER_PENDING),
                amount_uc=filed.amount_uc,
                reference=filed.content_hash,
            )
            books.expect(_earn_key(signed, filed.number), wanted)
    _same(name, "filings' leaves", leaves, signed.leaves)
    _same(name, "filings' rows", rows, signed.rows)
    _same(name, "filings' amount", amount_uc, signed.amount_uc)
    _same(name, "last filing", (number, last_hash), (row.number, row.content_hash))


def _earn_key(signed: Voucher, number: int) -> bytes:
    numbers = signed.price_epoch.to_bytes(4, "big") + number.to_bytes(4, "big")
    return signed.worker + signed.backbone + signed.tab + numbers


def _check_grant_states(connection: Connection, books: _Books) -> None:
    columns = (grant.c.hash, grant.c.used_uc, grant.c.state)
    for content_hash, used_uc, state in connection.execute(select(*columns)):
        name = f"grant {content_hash[:4].hex()}"
        granted = books.grants[content_hash]
        _same(name, "used", used_uc, books.used_uc[content_hash])
        if used_uc > granted.ceiling_uc:
            raise DifferenceFound(f"{name}: {used_uc} used of {granted.ceiling_uc}")
        rest = granted.ceiling_uc - used_uc
        if state == "released" and rest:
            wanted = _Expected(
                code=TransferCode.RELEASE,
                debit=(granted.backbone, AccountKind.CLIENT_RESERVED),
                credit=(granted.backbone, AccountKind.CLIENT_DEPOSIT),
                amount_uc=rest,
                reference=content_hash,
            )
            books.expect(content_hash, wanted)


def _check_transfers(
    connection: Connection, books: _Books, report: AuditReport
) -> None:
    owners = {row.id: (row.owner, row.kind) for row in _accounts(connection)}
    last_us = 0
    for row in connection.execute(select(transfer).order_by(transfer.c.seq)):
        name = f"transfer {row.id.hex()}"
        found = _Expected(
            code=row.code,
            debit=owners[row.debit_id],
            credit=owners[row.credit_id],
            amount_uc=row.amount_uc,
            reference=row.reference,
        )
        wanted = books.expected.pop(row.id, None)
        if wanted is None and row.code == TransferCode.FUND:
            wanted = _expected_funding(row, found)
        if found != wanted:
            raise DifferenceFound(f"{name}: {row.code} of {row.amount_uc} unexplained")
        if row.posted_us < last_us:
            raise DifferenceFound(f"{name}: posted before the one ahead of it")
        last_us = row.posted_us
        report.transfers += 1
    for missing, wanted in books.expected.items():
        raise DifferenceFound(
            f"transfer {missing.hex()}: {wanted.code} of {wanted.amount_uc} is missing"
        )


def _expected_funding(row: Row[Any], found: _Expected) -> _Expected | None:
    client = found.credit[0]
    if row.id != transfer_id(TransferCode.FUND, client + row.reference):
        return None
    return _Expected(
        code=TransferCode.FUND,
        debit=(EXTERNAL_OWNER, AccountKind.EXTERNAL),
        credit=(client, AccountKind.CLIENT_DEPOSIT),
        amount_uc=row.amount_uc,
        reference=row.reference,
    )


def _check_balances(connection: Connection, report: AuditReport) -> None:
    debits: defaultdict[int, int] = defaultdict(int)
    credits_: defaultdict[int, int] = defaultdict(int)
    columns = (transfer.c.debit_id, transfer.c.credit_id, transfer.c.amount_uc)
    for debit_id, credit_id, amount_uc in connection.execute(select(*columns)):
        debits[debit_id] += amount_uc
        credits_[credit_id] += amount_uc
    for row in _accounts(connection):
        name = f"account {row.kind} of {row.owner[:4].hex()}"
        _same(name, "debits", row.debits_uc, debits[row.id])
        _same(name, "credits", row.credits_uc, credits_[row.id])
        if row.kind != AccountKind.EXTERNAL and row.credits_uc < row.debits_uc:
            raise DifferenceFound(f"{name} is below zero")
        report.accounts += 1


def _accounts(connection: Connection) -> Sequence[Row[Any]]:
    return connection.execute(select(account).order_by(account.c.id)).all()


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Turn what is wrong with bytes into a difference of the thing they belong to."""
    try:
        yield
    except RemoteError as exc:
        raise DifferenceFound(f"{name}: {exc}") from exc


def _same(name: str, what: str, stored: object, derived: object) -> None:
    if stored != derived:
        raise DifferenceFound(
            f"{name}: {what} is {_shown(stored)}, re-derived {_shown(derived)}"
        )


def _shown(value: object) -> str:
    return value[:8].hex() if isinstance(value, bytes) else str(value)
