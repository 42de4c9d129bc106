"""Out of the ledger's folder: proofs of single servings, and tables for accountants.

Contract: read-only. `prove` gives the receipt of one accepted serving, whatever voucher
it was first part of: proofs are made against the current voucher of its key. The CSV
has one line a transfer, in order of posting, with integer micro-credits and decimal
credits, instants in UTC, ids in hex; columns only ever get added at the end.
"""

import csv
from collections.abc import Generator
from io import StringIO

from sqlalchemy import Connection, select

from ledger.amounts import format_credits
from ledger.database import LedgerFolder
from ledger.errors import NotFound
from ledger.leaf import LEAF_BYTES, Leaf, split_leaves
from ledger.leaf_files import LeafPlace, read_leaves
from ledger.merkle import Node, inclusion_path, leaf_hash
from ledger.periods import Period, format_us
from ledger.ranges import contains
from ledger.receipt import Receipt, position_of
from ledger.schema import account, filing, grant, price_table, transfer, voucher
from ledger.voucher import SignedVoucher, Voucher, VoucherKey

__all__ = ["CSV_COLUMNS", "keys_of_tab", "leaves_of", "prove", "transfers_csv"]

CSV_COLUMNS = (
    "seq",
    "time_utc",
    "time_us",
    "code",
    "amount_uc",
    "amount",
    "debit_kind",
    "debit_owner",
    "credit_kind",
    "credit_owner",
    "reference",
    "transfer_id",
)

_BATCH = 1000  # rows in memory at once


def keys_of_tab(
    connection: Connection,
    tab: bytes,
    *,
    worker: bytes | None = None,
    backbone: bytes | None = None,
) -> list[VoucherKey]:
    """Return the keys of a tab; several, as workers choose tabs by themselves."""
    statement = select(voucher).where(voucher.c.tab == tab).order_by(voucher.c.id)
    if worker is not None:
        statement = statement.where(voucher.c.worker == worker)
    if backbone is not None:
        statement = statement.where(voucher.c.backbone == backbone)
    return [
        VoucherKey(row.worker, row.backbone, row.tab, row.price_epoch)
        for row in connection.execute(statement)
    ]


def leaves_of(
    connection: Connection, folder: LedgerFolder, voucher_id: int
) -> list[bytes]:
    """Return every packed leaf filed under a voucher's key, by serving number.

    Raises:
        DifferenceFound: a leaf file is missing or too short.
    """
    places = connection.execute(
        select(filing.c.leaf_file, filing.c.leaf_offset, filing.c.leaves).where(
            filing.c.voucher_id == voucher_id
        )
    )
    block = b"".join(
        read_leaves(folder.leaves, LeafPlace(file, offset), n_leaves * LEAF_BYTES)
        for file, offset, n_leaves in places
    )
    return sorted(split_leaves(block), key=lambda leaf: Leaf.parse(leaf).serving)


def prove(
    connection: Connection, folder: LedgerFolder, key: VoucherKey, serving: int
) -> Receipt:
    """Return the receipt of one accepted serving.

    Raises:
        NotFound: there is no such tab, or the serving is not accepted in it.
        DifferenceFound: a leaf file is missing or too short.
    """
    row = connection.execute(
        select(voucher).where(
            voucher.c.worker == key.worker,
            voucher.c.backbone == key.backbone,
            voucher.c.tab == key.tab,
            voucher.c.price_epoch == key.price_epoch,
        )
    ).one_or_none()
    if row is None:
        raise NotFound(f"no voucher of tab {key.tab.hex()} in epoch {key.price_epoch}")
    current = Voucher.parse(row.raw)
    if not contains(current.ranges, serving):
        raise NotFound(f"serving {serving} of tab {key.tab.hex()} has no receipt")
    leaves = leaves_of(connection, folder, row.id)
    position = position_of(current.ranges, serving)
    nodes = [Node(leaf_hash(raw), Leaf.parse(raw).amount_uc) for raw in leaves]
    granted = connection.execute(
        select(grant).where(grant.c.hash == current.grant_hash)
    ).one()
    prices = connection.execute(
        select(price_table).where(price_table.c.hash == current.price_table_hash)
    ).one()
    return Receipt(
        leaf=leaves[position],
        path=inclusion_path(nodes, position),
        signed=SignedVoucher(
            raw=row.raw,
            worker_signature=row.worker_signature,
            backbone_signature=row.backbone_signature,
        ),
        grant=granted.raw,
        grant_signature=granted.signature,
        prices=prices.raw,
        price_signature=prices.signature,
        other_proofs={},
    )


def transfers_csv(
    connection: Connection, period: Period | None = None
) -> Generator[str, None, None]:
    """Yield the lines of the CSV, header first."""
    debit, credit = account.alias("debit"), account.alias("credit")
    statement = (
        select(
            transfer,
            debit.c.kind.label("debit_kind"),
            debit.c.owner.label("debit_owner"),
            credit.c.kind.label("credit_kind"),
            credit.c.owner.label("credit_owner"),
        )
        .join(debit, transfer.c.debit_id == debit.c.id)
        .join(credit, transfer.c.credit_id == credit.c.id)
        .order_by(transfer.c.seq)
    )
    if period is not None:
        statement = statement.where(
            transfer.c.posted_us >= period.start_us,
            transfer.c.posted_us < period.end_us,
        )
    yield _line(CSV_COLUMNS)
    batched = statement.execution_options(yield_per=_BATCH)
    with connection.execute(batched) as rows:
        for row in rows:
            yield _line(
                (
                    row.seq,
                    format_us(row.posted_us),
                    row.posted_us,
                    row.code,
                    row.amount_uc,
                    format_credits(row.amount_uc),
                    row.debit_kind,
                    row.debit_owner.hex(),
                    row.credit_kind,
                    row.credit_owner.hex(),
                    row.reference.hex(),
                    row.id.hex(),
                )
            )


def _line(values: tuple[object, ...]) -> str:
    sink = StringIO()
    csv.writer(sink, lineterminator="\n").writerow(values)
    return sink.getvalue()
