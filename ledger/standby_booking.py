"""The rules of standby pay: a paper is booked whole and once, out of the pot.

Contract: as `ledger.settlement`. A paper comes here with its signature verified. It is
booked if it is of this network, its epoch is over and not older than a week, none of
its model's booked papers has its number or a part of its time, it gives no more than
the policy lets one paper give, and the pot holds what it gives. A paper that is booked
already is answered with what was done then. Each worker gets one transfer, from the pot
to what it may be paid out; a worker that no voucher was ever filed for is not known
here: its part is written down and stays in the pot. `PotEmpty` may go away, every other
refusal stays.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from sqlalchemy import Connection, Table, func, insert, or_, select

from ledger.accounts import EXTERNAL_OWNER, AccountKind, Posting, TransferCode
from ledger.amounts import format_credits
from ledger.closing import policy_now
from ledger.database import highest
from ledger.desk import Desk
from ledger.errors import PotEmpty, StandbyRefused
from ledger.schema import price_table, voucher
from ledger.schema_standby import (
    holding,
    price_epoch,
    price_row,
    standby_paper,
    standby_pay,
)
from ledger.standby import StandbyPaper, standby_hash, verify_standby

__all__ = [
    "MAX_STANDBY_AGE_US",
    "MAX_STANDBY_SKEW_US",
    "POT",
    "BookedStandby",
    "book_standby",
    "standby_key",
    "submit_standby",
]

POT = (EXTERNAL_OWNER, AccountKind.STANDBY)
MAX_STANDBY_AGE_US = 7 * 86_400_000_000  # of an epoch's end, when its paper comes
MAX_STANDBY_SKEW_US = 60_000_000  # how far the market's clock may be ahead
_MAX_ASKED = 500  # keys in one query
_ROWS_AT_ONCE = 1000

Row = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedStandby:
    """What booking a paper came to."""

    name: bytes  # [32] the paper's hash
    is_repeat: bool  # it was booked before
    paid_uc: int
    unpaid_uc: int  # of workers that are not known here


def standby_key(paper_hash: bytes, worker: bytes) -> bytes:
    """Return the business key of what a worker gets of a paper."""
    return paper_hash + worker


def submit_standby(
    submit: Callable[[Callable[[Desk], BookedStandby]], Future[BookedStandby]],
    raw: bytes,
    signature: bytes,
    market: bytes,
) -> Future[BookedStandby]:
    """Check a paper's signature on the caller's side, then have the writer book it.

    Raises:
        KeyRefused, SignatureRefused, FormatRefused, AmountRefused: no such paper.
    """
    paper = verify_standby(raw, signature, market)
    return submit(lambda desk: book_standby(desk, paper, raw, signature))


def book_standby(
    desk: Desk, paper: StandbyPaper, raw: bytes, signature: bytes
) -> BookedStandby:
    """Book a paper whose signature was checked.

    Raises:
        StandbyRefused: it is never booked; nothing was changed.
        PotEmpty: the pot or the policy does not allow it now; nothing was changed.
    """
    desk.write_out()
    name = standby_hash(raw)
    earlier = _earlier(desk.connection, name)
    if earlier is not None:
        return earlier
    _refuse_misplaced(desk, paper)
    pay = paper.pay()
    known = _known(desk.connection, list(pay))
    paid_uc = sum(pay[worker] for worker in known)
    _refuse_uncovered(desk, paper, paid_uc)
    for worker in pay:
        if worker in known:
            desk.book.post(_posting(name, worker, pay[worker]), desk.now_us)
    _write(desk, paper, raw, signature, pay, known)
    return BookedStandby(
        name=name,
        is_repeat=False,
        paid_uc=paid_uc,
        unpaid_uc=sum(pay.values()) - paid_uc,
    )


def _earlier(connection: Connection, name: bytes) -> BookedStandby | None:
    seq = connection.execute(
        select(standby_paper.c.seq).where(standby_paper.c.hash == name)
    ).scalar_one_or_none()
    if seq is None:
        return None
    sums = connection.execute(
        select(standby_pay.c.state, func.sum(standby_pay.c.amount_uc))
        .where(standby_pay.c.paper == seq)
        .group_by(standby_pay.c.state)
    )
    by_state = {state: int(sum_uc) for state, sum_uc in sums}
    return BookedStandby(
        name=name,
        is_repeat=True,
        paid_uc=by_state.get("paid", 0),
        unpaid_uc=by_state.get("unknown", 0),
    )


def _refuse_misplaced(desk: Desk, paper: StandbyPaper) -> None:
    """Refuse a paper of another network, or of a time that is not its turn."""
    market = desk.owner.market
    if paper.network != desk.owner.network:
        raise StandbyRefused("standby paper of another network", peer=market)
    if paper.to_us > desk.now_us + MAX_STANDBY_SKEW_US:
        raise StandbyRefused(f"epoch {paper.epoch} is not over", peer=market)
    if paper.to_us < desk.now_us - MAX_STANDBY_AGE_US:
        raise StandbyRefused(f"epoch {paper.epoch} is too long ago", peer=market)
    clash = desk.connection.execute(
        select(price_epoch.c.epoch)
        .where(price_epoch.c.manifest_hash == paper.manifest_hash)
        .where(
            or_(
                price_epoch.c.epoch == paper.epoch,
                (price_epoch.c.from_us < paper.to_us)
                & (price_epoch.c.to_us > paper.from_us),
            )
        )
        .limit(1)
    ).scalar_one_or_none()
    if clash is not None:
        raise StandbyRefused(
            f"epoch {paper.epoch}: another paper of epoch {clash} is booked for this "
            "model and time",
            peer=market,
        )
    manifest = desk.connection.execute(
        select(price_table.c.manifest_hash).where(
            price_table.c.hash == paper.price_table_hash
        )
    ).scalar_one_or_none()
    if manifest not in (None, paper.manifest_hash):
        raise StandbyRefused(
            f"epoch {paper.epoch}: its prices are of another model", peer=market
        )


def _refuse_uncovered(desk: Desk, paper: StandbyPaper, paid_uc: int) -> None:
    """Refuse a paper that gives more than the policy or the pot allows now."""
    most_uc = policy_now(desk).standby_uc
    if paper.pot_uc > most_uc:
        raise PotEmpty(
            f"epoch {paper.epoch} gives {format_credits(paper.pot_uc)} credits, the "
            f"policy allows {format_credits(most_uc)}",
            peer=desk.owner.market,
        )
    pot = desk.book.find(*POT)
    held_uc = pot.balance_uc if pot else 0
    if paid_uc > held_uc:
        raise PotEmpty(
            f"epoch {paper.epoch} gives {format_credits(paid_uc)} credits, the pot "
            f"holds {format_credits(held_uc)}",
            peer=desk.owner.market,
        )


def _known(connection: Connection, workers: Sequence[bytes]) -> frozenset[bytes]:
    """Return which of the workers had a voucher filed, ever."""
    found: set[bytes] = set()
    for start in range(0, len(workers), _MAX_ASKED):
        rows = connection.execute(
            select(voucher.c.worker)
            .where(voucher.c.worker.in_(workers[start : start + _MAX_ASKED]))
            .distinct()
        )
        found.update(rows.scalars())
    return frozenset(found)


def _posting(name: bytes, worker: bytes, amount_uc: int) -> Posting:
    return Posting(
        code=TransferCode.STANDBY,
        key=standby_key(name, worker),
        debit=POT,
        credit=(worker, AccountKind.WORKER_AVAILABLE),
        amount_uc=amount_uc,
        reference=name,
    )


def _write(
    desk: Desk,
    paper: StandbyPaper,
    raw: bytes,
    signature: bytes,
    pay: dict[bytes, int],
    known: frozenset[bytes],
) -> None:
    seq = 1 + highest(desk.connection, standby_paper.c.seq)
    head = {
        "seq": seq,
        "hash": standby_hash(raw),
        "raw": raw,
        "signature": signature,
        "policy_hash": desk.closings.policy_hash,
        "booked_us": desk.now_us,
    }
    epoch = {
        "paper": seq,
        "manifest_hash": paper.manifest_hash,
        "epoch": paper.epoch,
        "from_us": paper.from_us,
        "to_us": paper.to_us,
        "price_table_hash": paper.price_table_hash,
        "pot_uc": paper.pot_uc,
        "paid_uc": sum(pay[worker] for worker in known),
    }
    replicas = Counter(each.worker for each in paper.holdings)
    pays: list[Row] = [
        {
            "paper": seq,
            "worker": worker,
            "replicas": replicas[worker],
            "amount_uc": amount_uc,
            "state": "paid" if worker in known else "unknown",
        }
        for worker, amount_uc in pay.items()
    ]
    for table, rows in (
        (standby_paper, [head]),
        (price_epoch, [epoch]),
        (price_row, list(_scarcity_rows(seq, paper))),
        (holding, list(_holding_rows(seq, paper))),
        (standby_pay, pays),
    ):
        _insert(desk.connection, table, rows)


def _scarcity_rows(seq: int, paper: StandbyPaper) -> Iterator[Row]:
    for each in paper.experts:
        yield {
            "paper": seq,
            "layer": each.expert >> 16,
            "expert": each.expert & 0xFFFF,
            "demand": each.demand,
            "multiplier": each.multiplier,
            "target": each.target,
            "coverage": each.coverage,
        }


def _holding_rows(seq: int, paper: StandbyPaper) -> Iterator[Row]:
    for each, amount_uc in paper.amounts():
        yield {
            "paper": seq,
            "layer": each.expert >> 16,
            "expert": each.expert & 0xFFFF,
            "worker": each.worker,
            "domain": each.domain,
            "share": each.share,
            "amount_uc": amount_uc,
        }


def _insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        connection.execute(insert(table), rows[start : start + _ROWS_AT_ONCE])
