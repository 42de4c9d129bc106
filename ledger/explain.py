"""Why value moved: from one transfer down to the leaves that it is made of.

Contract: read-only. A transfer is named by its id, by 8 or more digits of it, by its
number, or by the id of the payout that it belongs to. What it is based on follows step
by step: the voucher, grant and prices of what was earned; the policy's fractions of a
fee, holdback or release; the vouchers that a payout pays. Leaves are priced again, and
an explanation whose leaves do not add up is a `DifferenceFound`, never an answer.
"""

from collections import Counter
from typing import Any

from sqlalchemy import Connection, Row, Table, select

from ledger.accounts import EXTERNAL_OWNER, TransferCode, transfer_id
from ledger.amounts import format_credits
from ledger.beacon_rows import failed_of_voucher
from ledger.database import LedgerFolder
from ledger.errors import DifferenceFound, FormatRefused, LeavesPruned, NotFound
from ledger.explain_standby import (
    add_pot_filling,
    add_standby,
    add_standby_part,
)
from ledger.explanation import ExpertLine, Explanation, LeafLine, by_expert
from ledger.leaf import LEAF_BYTES, Leaf, split_leaves
from ledger.leaf_files import LeafPlace, read_leaves
from ledger.periods import format_us
from ledger.policy import PARTS_PER_MILLION, Policy
from ledger.prices import PriceTable
from ledger.schema import account, filing, grant, price_table, transfer, voucher
from ledger.schema_closing import (
    closing,
    dispute,
    payout,
    payout_item,
    voucher_expert,
)
from ledger.schema_closing import policy as policy_table

__all__ = ["explain", "find_transfer"]

_MIN_DIGITS = 8
_ID_BYTES = 16


def find_transfer(connection: Connection, text: str) -> Row[Any]:
    """Return the transfer that a text names.

    Raises:
        NotFound: none, or several.
    """
    digits = text.strip().lower()
    if digits.isdecimal() and digits.isascii() and len(digits) < _MIN_DIGITS:
        chosen = transfer.c.seq == int(digits)
        found = connection.execute(select(transfer).where(chosen)).all()
    else:
        found = _by_prefix(connection, transfer, digits)
        if not found:
            payouts = _by_prefix(connection, payout, digits)
            ids = [transfer_id(TransferCode.PAY, row.id) for row in payouts]
            found = connection.execute(
                select(transfer).where(transfer.c.id.in_(ids))
            ).all()
    if len(found) > 1:
        raise NotFound(f"{text[:60]!r} names {len(found)} transfers: give more digits")
    if not found:
        raise NotFound(
            f"no transfer or payout is {text[:60]!r}: see p2pmoe ledger register"
        )
    return found[0]


def explain(
    connection: Connection, folder: LedgerFolder, moved: Row[Any]
) -> Explanation:
    """Return what a transfer is based on, down to the leaves.

    Raises:
        DifferenceFound: something it is based on is missing or does not add up.
    """
    told = Explanation()
    _add_transfer(connection, told, moved)
    try:
        code = TransferCode(moved.code)
    except ValueError as exc:
        raise DifferenceFound(f"a transfer of kind {moved.code[:40]!r}") from exc
    if code == TransferCode.FUND:
        note = bytes(moved.reference).decode(errors="replace")
        told.add("credit that the operator gave", note=note)
    elif code in {TransferCode.RESERVE, TransferCode.RELEASE}:
        _add_grant(connection, told, moved.reference)
    elif code == TransferCode.EARN:
        _add_earning(connection, folder, told, moved)
    elif code in {TransferCode.PAY, TransferCode.PAID, TransferCode.UNPAY}:
        _add_payout(connection, told, moved.reference)
    elif code == TransferCode.STANDBY:
        add_standby(connection, told, moved)
    elif code in {TransferCode.ENDOW, TransferCode.ALLOT}:
        add_pot_filling(told, moved)
    elif code != TransferCode.ROUND:
        _add_closing(connection, folder, told, moved)
    return told


def _by_prefix(connection: Connection, table: Table, digits: str) -> list[Row[Any]]:
    if not _MIN_DIGITS <= len(digits) <= 2 * _ID_BYTES:
        return []
    try:
        first, last = (
            bytes.fromhex(digits.ljust(2 * _ID_BYTES, pad)) for pad in ("0", "f")
        )
    except ValueError:
        return []
    statement = select(table).where(table.c.id >= first, table.c.id <= last).limit(2)
    return list(connection.execute(statement).all())


def _one(
    connection: Connection, table: Table, name: str, column: str, value: object
) -> Row[Any]:
    row = connection.execute(
        select(table).where(table.c[column] == value)
    ).one_or_none()
    if row is None:
        raise DifferenceFound(f"{name} is missing")
    return row


def _add_transfer(connection: Connection, told: Explanation, moved: Row[Any]) -> None:
    sides: dict[str, object] = {}
    for side, account_id in (("from", moved.debit_id), ("to", moved.credit_id)):
        row = _one(connection, account, f"account {account_id}", "id", account_id)
        whose = "" if row.owner == EXTERNAL_OWNER else f" of {row.owner.hex()}"
        sides[side] = f"{row.kind}{whose}"
    told.add(
        "transfer",
        transfer=moved.id.hex(),
        seq=moved.seq,
        time=format_us(moved.posted_us),
        code=moved.code,
        **sides,
        amount_uc=moved.amount_uc,
        amount=format_credits(moved.amount_uc),
    )


def _add_grant(connection: Connection, told: Explanation, content_hash: bytes) -> None:
    row = _one(connection, grant, "its grant", "hash", content_hash)
    told.add(
        "grant",
        grant=row.hash.hex(),
        worker=row.worker.hex(),
        backbone=row.backbone.hex(),
        ceiling_uc=row.ceiling_uc,
        used_uc=row.used_uc,
        expiry=format_us(row.expiry_us),
        state=row.state,
    )


def _add_earning(
    connection: Connection, folder: LedgerFolder, told: Explanation, moved: Row[Any]
) -> None:
    filed = _one(connection, filing, "its voucher", "content_hash", moved.reference)
    key = _one(connection, voucher, "its voucher's key", "id", filed.voucher_id)
    told.add(
        "voucher",
        voucher=filed.content_hash.hex(),
        worker=key.worker.hex(),
        backbone=key.backbone.hex(),
        tab=key.tab.hex(),
        epoch=key.price_epoch,
        number=filed.number,
        issued=format_us(filed.issued_us),
        added_servings=filed.leaves,
        added_rows=filed.rows,
        added_uc=filed.amount_uc,
    )
    _add_grant(connection, told, filed.grant_hash)
    prices = _add_prices(connection, told, filed.grant_hash)
    _add_leaves(folder, told, [filed], prices)
    if filed.amount_uc != moved.amount_uc:
        raise DifferenceFound(
            f"transfer of {moved.amount_uc} for a voucher that adds {filed.amount_uc}"
        )


def _add_prices(
    connection: Connection, told: Explanation, grant_hash: bytes
) -> PriceTable:
    granted = _one(connection, grant, "its grant", "hash", grant_hash)
    row = _one(
        connection, price_table, "its price table", "hash", granted.price_table_hash
    )
    prices = PriceTable.parse(row.raw)
    told.add(
        "prices",
        prices=row.hash.hex(),
        epoch=prices.epoch,
        base_uc=prices.base_uc,
        multipliers=len(prices.multipliers),
    )
    return prices


def _add_leaves(
    folder: LedgerFolder, told: Explanation, filings: list[Row[Any]], prices: PriceTable
) -> None:
    """Add the leaves of filings, priced anew; they must add up to what was filed."""
    wanted_uc = sum(filed.amount_uc for filed in filings)
    try:
        blocks = [
            read_leaves(
                folder.leaves,
                LeafPlace(filed.leaf_file, filed.leaf_offset),
                filed.leaves * LEAF_BYTES,
            )
            for filed in filings
        ]
    except LeavesPruned as exc:
        told.add("leaves", pruned=str(exc), sum_uc=wanted_uc)
        return
    try:
        leaves = [Leaf.parse(raw) for block in blocks for raw in split_leaves(block)]
    except FormatRefused as exc:
        raise DifferenceFound(f"leaves of {wanted_uc} micro-credits: {exc}") from exc
    told.leaves = [_leaf_line(leaf, prices) for leaf in leaves]
    told.experts = by_expert(told.leaves)
    total_uc = sum(line.rows * line.unit_price_uc for line in told.leaves)
    told.add(
        "leaves",
        servings=len(leaves),
        rows=sum(leaf.rows for leaf in leaves),
        sum_uc=total_uc,
    )
    if total_uc != wanted_uc or any(
        line.rows * line.unit_price_uc != line.amount_uc for line in told.leaves
    ):
        raise DifferenceFound(f"leaves of {total_uc} for vouchers of {wanted_uc}")


def _leaf_line(leaf: Leaf, prices: PriceTable) -> LeafLine:
    return LeafLine(
        serving=leaf.serving,
        request=leaf.request,
        layer=leaf.layer,
        expert=leaf.expert,
        rows=leaf.rows,
        unit_price_uc=prices.unit_price(leaf.layer, leaf.expert),
        amount_uc=leaf.amount_uc,
    )


def _add_closing(
    connection: Connection, folder: LedgerFolder, told: Explanation, moved: Row[Any]
) -> None:
    """Tell of which closed voucher it is a part, and by which terms."""
    row = _one(connection, closing, "its closing", "content_hash", moved.reference)
    terms = _one(connection, policy_table, "its policy", "hash", row.policy_hash)
    policy = Policy.parse(terms.raw)
    told.add(
        "closed voucher",
        voucher=row.content_hash.hex(),
        log_index=row.log_index,
        closed=format_us(row.closed_us),
        amount_uc=row.amount_uc,
        fee_uc=row.fee_uc,
        held_uc=row.held_uc,
        net_uc=row.net_uc,
        state=row.state,
        holdback=row.holdback,
    )
    told.add(
        "policy",
        policy=row.policy_hash.hex(),
        fee=f"{row.amount_uc} * {policy.fee_ppm} // {PARTS_PER_MILLION}",
        holdback=f"({row.amount_uc} - {row.fee_uc}) * {policy.holdback_ppm} "
        f"// {PARTS_PER_MILLION}",
        release_due=format_us(row.release_due_us),
        holdback_due=format_us(row.holdback_due_us),
    )
    split = policy.split(row.amount_uc)
    if (split.fee_uc, split.held_uc, split.net_uc) != (
        row.fee_uc,
        row.held_uc,
        row.net_uc,
    ):
        raise DifferenceFound(
            f"voucher {row.content_hash.hex()[:8]} is split otherwise"
        )
    _add_disputes(connection, told, row.voucher_id)
    filings = _filings(connection, row.voucher_id)
    if filings:
        prices = _add_prices(connection, told, filings[-1].grant_hash)
        _add_leaves(folder, told, filings, prices)
        if not told.leaves:  # their sums by expert outlive them
            told.experts = _kept_experts(connection, row.voucher_id, prices)


def _kept_experts(
    connection: Connection, voucher_id: int, prices: PriceTable
) -> list[ExpertLine]:
    kept = voucher_expert.c
    statement = select(voucher_expert).where(kept.voucher_id == voucher_id)
    return [
        ExpertLine(
            layer=row.layer,
            expert=row.expert,
            servings=row.servings,
            rows=row.rows,
            unit_price_uc=prices.unit_price(row.layer, row.expert),
            amount_uc=row.amount_uc,
        )
        for row in connection.execute(statement.order_by(kept.layer, kept.expert))
    ]


def _filings(connection: Connection, voucher_id: int) -> list[Row[Any]]:
    statement = select(filing).where(filing.c.voucher_id == voucher_id)
    return list(connection.execute(statement.order_by(filing.c.number)).all())


def _add_disputes(connection: Connection, told: Explanation, voucher_id: int) -> None:
    chosen = select(dispute).where(dispute.c.voucher_id == voucher_id)
    for row in connection.execute(chosen.order_by(dispute.c.id)):
        told.add(
            "dispute",
            dispute=row.id,
            serving=row.serving,
            opener=row.opener.hex(),
            reason=row.reason,
            state=row.state,
            verdict=row.verdict,
        )
    for audited in failed_of_voucher(connection, voucher_id):
        told.add(
            "audit",
            audit=audited.id,
            serving=audited.leaf.serving,
            state=audited.state.value,
            referees=", ".join(word.referee.hex() for word in audited.words),
            reversed=audited.is_reversed,
        )


def _add_payout(connection: Connection, told: Explanation, payout_id: bytes) -> None:
    row = _one(connection, payout, "its payout", "id", payout_id)
    told.add(
        "payout",
        payout=row.id.hex(),
        state=row.state,
        prepared=format_us(row.prepared_us),
        amount_uc=row.amount_uc,
        amount_minor=row.amount_minor,
        currency=row.currency,
        rate=row.rate,
        reference=row.external_ref or "",
    )
    statement = (
        select(payout_item, closing.c.content_hash, closing.c.log_index)
        .join(closing, closing.c.voucher_id == payout_item.c.voucher_id)
        .where(payout_item.c.payout_id == payout_id)
        .order_by(closing.c.log_index, payout_item.c.part)
    )
    parts = connection.execute(statement).all()
    for part in parts:
        code = TransferCode.SETTLE if part.part == "net" else TransferCode.UNHOLD
        told.add(
            "part",
            voucher=part.content_hash.hex(),
            log_index=part.log_index,
            part=part.part,
            amount_uc=part.amount_uc,
            transfer=transfer_id(code, part.content_hash).hex(),
        )
    n_standby, standby_uc = add_standby_part(connection, told, payout_id)
    counted = Counter(part.part for part in parts)
    sum_uc = sum(part.amount_uc for part in parts) + standby_uc
    told.add(
        "parts",
        **{name: counted[name] for name in ("net", "holdback")},
        standby=n_standby,
        sum_uc=sum_uc,
        rounding_uc=sum_uc - row.amount_uc,
    )
