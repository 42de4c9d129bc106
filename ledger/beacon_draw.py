"""Cast a beacon and choose by it; on the writer's desk.

Contract: as `ledger.settlement`: decides first, acts after. A beacon covers the filings
posted before this very instant and after the one before it ended; it is cast only where
there are any. A ledger's first beacon covers nothing: what was filed before there were
beacons is not drawn from. Nothing here asks anybody: that is the service's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, insert, select

from ledger.beacon import (
    Beacon,
    beacon_value,
    choose_rows,
    places_of,
    sign_beacon,
    voucher_seed,
)
from ledger.beacon_rows import LastBeacon, last_beacon, passes_of
from ledger.beacon_words import AuditState
from ledger.database import highest
from ledger.desk import Desk
from ledger.leaf import LEAF_BYTES, LEAF_STRUCT
from ledger.leaf_files import LeafPlace, read_leaves
from ledger.schema import filing, voucher
from ledger.schema_beacon import audit, beacon
from ledger.schema_closing import checkpoint

__all__ = ["Cast", "cast_beacon"]

_MAX_FILINGS = 4096  # of one beacon, but for those of one instant
_NO_VALUE = bytes(32)
_ROWS = 6  # place in LEAF_STRUCT


@dataclass(frozen=True, slots=True)
class Cast:
    """What was drawn, and when by the ledger's time."""

    now_us: int
    first_id: int  # of the new audits
    n_audits: int
    is_done: bool  # else there are more filings to draw from


def cast_beacon(desk: Desk, sign: Callable[[bytes], bytes]) -> Cast:
    """Draw from what was filed since the last beacon.

    Raises:
        DifferenceFound: leaves that were filed cannot be read; nothing was changed.
    """
    desk.write_out()
    last = last_beacon(desk.connection)
    first_id = highest(desk.connection, audit.c.id) + 1
    if last is None:
        _write_beacon(desk, sign, LastBeacon(0, _NO_VALUE, desk.now_us), desk.now_us)
        return Cast(desk.now_us, first_id, 0, is_done=True)
    upto_us = _border(desk, last)
    filings = _filings(desk, last.upto_us, upto_us)
    if not filings:
        return Cast(desk.now_us, first_id, 0, is_done=True)
    chosen = _signed_choice(desk, sign, last, upto_us, filings)
    rows = [{"id": number, **row} for number, row in enumerate(chosen, first_id)]
    if rows:
        desk.connection.execute(insert(audit), rows)
    return Cast(desk.now_us, first_id, len(rows), is_done=upto_us == desk.now_us)


def _border(desk: Desk, last: LastBeacon) -> int:
    """Return until when this beacon reaches: now, or where there is enough."""
    too_many = desk.connection.execute(
        select(filing.c.posted_us)
        .where(filing.c.posted_us >= last.upto_us, filing.c.posted_us < desk.now_us)
        .order_by(filing.c.posted_us)
        .offset(_MAX_FILINGS)
        .limit(1)
    ).scalar_one_or_none()
    if too_many is None:
        return desk.now_us
    return max(int(too_many), last.upto_us + 1)


def _filings(desk: Desk, from_us: int, upto_us: int) -> list[Row[Any]]:
    statement = (
        select(filing, voucher.c.worker, voucher.c.backbone)
        .join(voucher, voucher.c.id == filing.c.voucher_id)
        .where(filing.c.posted_us >= from_us, filing.c.posted_us < upto_us)
        .where(filing.c.leaves > 0)
        .order_by(filing.c.posted_us, filing.c.content_hash)
    )
    return list(desk.connection.execute(statement).all())


def _signed_choice(
    desk: Desk,
    sign: Callable[[bytes], bytes],
    last: LastBeacon,
    upto_us: int,
    filings: list[Row[Any]],
) -> list[dict[str, object]]:
    """Sign the beacon and return the rows of what it chose."""
    number = last.number + 1
    value = _write_beacon(desk, sign, last, upto_us)
    passes: dict[bytes, int] = {}
    found = []
    for filed in filings:
        if filed.worker not in passes:
            passes[filed.worker] = passes_of(desk.connection, filed.worker, upto_us)
        seed = voucher_seed(value, filed.content_hash)
        rows = choose_rows(seed, filed.rows, passes[filed.worker])
        for place, leaf in _chosen_leaves(desk, filed, rows):
            found.append(
                {
                    "beacon": number,
                    "content_hash": filed.content_hash,
                    "voucher_id": filed.voucher_id,
                    "place": place,
                    "leaf": leaf,
                    "worker": filed.worker,
                    "backbone": filed.backbone,
                    "posted_us": upto_us,
                    "state": AuditState.OPEN.value,
                    "words": b"",
                    "is_reversed": 0,
                    "detail": "",
                }
            )
    return found


def _write_beacon(
    desk: Desk, sign: Callable[[bytes], bytes], last: LastBeacon, upto_us: int
) -> bytes:
    head = desk.connection.execute(
        select(checkpoint).order_by(checkpoint.c.size.desc()).limit(1)
    ).one_or_none()
    cast = Beacon(
        network=desk.owner.network,
        number=last.number + 1,
        previous=last.value,
        log_size=head.size if head else 0,
        log_root=head.root if head else _NO_VALUE,
    )
    signature = sign_beacon(cast, sign)
    desk.connection.execute(
        insert(beacon).values(
            number=cast.number,
            previous=cast.previous,
            log_size=cast.log_size,
            log_root=cast.log_root,
            signature=signature,
            from_us=last.upto_us,
            upto_us=upto_us,
        )
    )
    return beacon_value(signature)


def _chosen_leaves(
    desk: Desk, filed: Row[Any], rows: tuple[int, ...]
) -> list[tuple[int, bytes]]:
    """Return the leaves that computed these rows, with their places in the filing."""
    if not rows:
        return []
    if filed.rows == filed.leaves:  # one row each: the others need not be read
        return [(place, _leaves(desk, filed, place, 1)) for place in rows]
    block = _leaves(desk, filed, 0, filed.leaves)
    counts = [fields[_ROWS] for fields in LEAF_STRUCT.iter_unpack(block)]
    return [
        (place, block[place * LEAF_BYTES : (place + 1) * LEAF_BYTES])
        for place in places_of(rows, counts)
    ]


def _leaves(desk: Desk, filed: Row[Any], place: int, n: int) -> bytes:
    at = LeafPlace(filed.leaf_file, filed.leaf_offset + place * LEAF_BYTES)
    return read_leaves(desk.folder.leaves, at, n * LEAF_BYTES)
