"""Demand that was paid for: rows by expert, of the vouchers filed in a span of time.

Contract: read-only. Only what both sides signed and the ledger took counts, by the
instant at which it was stored, which never goes back: once the ledger's time has passed
a span, what was paid in it never changes, and counting it again gives the same. What
workers or backbones say of themselves has no part in it. `paid_spans` cuts time into
spans that begin at multiples of their length, so that nobody has to remember which were
told: after a restart they are the same ones.

Source: design/06, "Price".
"""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from ledger.database import LedgerFolder
from ledger.errors import LeavesPruned
from ledger.experts import ExpertSums
from ledger.leaf import LEAF_BYTES
from ledger.leaf_files import LeafPlace, read_leaves
from ledger.periods import Period
from ledger.schema import filing, grant, price_table

__all__ = ["PaidRows", "last_filed_us", "paid_rows", "paid_spans"]

# Rows by expert (layer, index), by model's manifest hash.
PaidRows = Mapping[bytes, Mapping[tuple[int, int], int]]


def last_filed_us(connection: Connection) -> int:
    """Return when the last voucher was stored, 0 for none."""
    return connection.execute(select(func.max(filing.c.posted_us))).scalar_one() or 0


def paid_spans(
    connection: Connection, span_us: int, since_us: int, now_us: int
) -> list[Period]:
    """Return the spans in which something was filed, the oldest first.

    Args:
        connection: a reading session that began after `now_us`.
        span_us: how long a span is; each begins at a multiple of it.
        since_us: the first span is the one with this instant.
        now_us: the ledger's time; a span that is not over by then is left out.
    """
    first_us = since_us // span_us * span_us
    number = (filing.c.posted_us // span_us).label("number")
    each = select(number).where(
        filing.c.posted_us >= first_us,
        filing.c.posted_us < now_us // span_us * span_us,
        filing.c.leaves > 0,
    )
    found = select(each.subquery().c.number).distinct()
    numbers = sorted(connection.execute(found).scalars())
    return [Period(n * span_us, (n + 1) * span_us) for n in numbers]


def paid_rows(connection: Connection, folder: LedgerFolder, period: Period) -> PaidRows:
    """Count the rows of all vouchers that were filed in a period, by model and expert.

    Args:
        connection: a reading session that began after the period's end.
        folder: where the leaves lie.
        period: in the ledger's time.

    Raises:
        DifferenceFound: leaves are not there; pruned ones are left out.
    """
    columns = (
        filing.c.leaf_file,
        filing.c.leaf_offset,
        filing.c.leaves,
        price_table.c.manifest_hash,
    )
    statement = (
        select(*columns)
        .join(grant, grant.c.hash == filing.c.grant_hash)
        .join(price_table, price_table.c.hash == grant.c.price_table_hash)
        .where(
            filing.c.posted_us >= period.start_us,
            filing.c.posted_us < period.end_us,
            filing.c.leaves > 0,
        )
        .order_by(filing.c.leaf_file, filing.c.leaf_offset)
    )
    sums: defaultdict[bytes, ExpertSums] = defaultdict(ExpertSums)
    for file, offset, n_leaves, manifest_hash in connection.execute(statement):
        place = LeafPlace(file, offset)
        try:
            block = read_leaves(folder.leaves, place, n_leaves * LEAF_BYTES)
        except LeavesPruned:  # by a policy of no patience: a guide to prices less
            continue
        sums[manifest_hash].add(block)
    return {manifest: of.rows() for manifest, of in sums.items()}
