"""A statement for other programs: a JSON-able document, and rows for a table.

Contract: pure. Every amount is there twice: `X_uc`, an integer of micro-credits, and
`X`, a decimal string of credits. Instants are ISO 8601 in UTC. Names and their order
are stable: what is new is added at the end of its part.
"""

import csv
from collections.abc import Generator, Iterable, Iterator, Mapping
from io import StringIO

from ledger.accounts import TransferCode
from ledger.amounts import format_credits
from ledger.flows import WorkerBalances
from ledger.periods import Period, format_us
from ledger.receipt_states import ReceiptState
from ledger.statements import EpochLine, StandbyLine, Statement

__all__ = ["STATEMENT_COLUMNS", "amounts", "statement_csv", "statement_document"]

# What the total of a worker's accounts is made of, in this order.
_SUMS = (
    ("standby", TransferCode.STANDBY),
    ("fees", TransferCode.FEE),
    ("reversed", TransferCode.REVERSE),
    ("penalties", TransferCode.FORFEIT),
    ("rounding", TransferCode.ROUND),
    ("paid", TransferCode.PAID),
)
# What only went from one of the worker's accounts to another.
_INNER = (
    ("held_back", TransferCode.HOLD),
    ("holdback_released", TransferCode.UNHOLD),
    ("released", TransferCode.SETTLE),
    ("sent_to_pay", TransferCode.PAY),
    ("came_back", TransferCode.UNPAY),
)
STATEMENT_COLUMNS = (
    "worker",
    "period_start",
    "period_end",
    "section",
    "name",
    "receipts",
    "servings",
    "amount_uc",
    "amount",
)


def amounts(**values_uc: int) -> dict[str, object]:
    """Return each amount as `name_uc`, an integer, and `name`, in credits."""
    both: dict[str, object] = {}
    for name, value_uc in values_uc.items():
        both[f"{name}_uc"] = value_uc
        both[name] = format_credits(value_uc)
    return both


def statement_document(statement: Statement) -> dict[str, object]:
    """Return everything a statement says."""
    lines = statement.by_backbone
    return {
        "worker": statement.worker.hex(),
        "period": _period(statement.period),
        **_summary(statement),
        **amounts(**{name: statement.moved_uc(code) for name, code in _INNER}),
        "accounts": {
            "opening": _balances(statement.flows.opening),
            "closing": _balances(statement.flows.closing),
        },
        "vouchers": sum(line.vouchers for line in lines),
        "servings": sum(line.servings for line in lines),
        "rows": sum(line.rows for line in lines),
        "by_backbone": [
            {
                "backbone": line.backbone.hex(),
                "vouchers": line.vouchers,
                "servings": line.servings,
                "rows": line.rows,
                **amounts(
                    earned=line.earned_uc,
                    base=line.base_uc,
                    scarcity=line.earned_uc - line.base_uc,
                ),
            }
            for line in lines
        ],
        **_receipts(statement),
        "payouts": _payouts(statement),
        "late": {
            "receipts": statement.late_receipts,
            **amounts(amount=statement.late_uc),
        },
        "checkpoint": _checkpoint(statement),
        "closed": _closed(statement),
        "statement_hash": statement.content_hash.hex(),
        "by_epoch": [_epoch(line) for line in statement.by_epoch],
        "standby_by_model": [_standby(line) for line in statement.standby],
    }


def statement_csv(statements: Iterable[Statement]) -> Generator[str, None, None]:
    """Yield the lines of a CSV of statements, header first."""
    yield _line(STATEMENT_COLUMNS)
    for each in statements:
        head = (
            each.worker.hex(),
            format_us(each.period.start_us),
            format_us(each.period.end_us),
        )
        for row in _rows(each):
            *_, amount_uc = row
            yield _line((*head, *row, format_credits(amount_uc)))


def _rows(statement: Statement) -> Iterator[tuple[str, str, int | str, int | str, int]]:
    """Yield (section, name, receipts, servings, amount) of a statement."""
    for name, amount_uc in _summary_uc(statement).items():
        yield "summary", name, "", "", amount_uc
    for name, code in _INNER:
        yield "movement", name, "", "", statement.moved_uc(code)
    for border in ("opening", "closing"):
        balances: WorkerBalances = getattr(statement.flows, border)
        for name in ("pending", "held", "available", "clearing"):
            yield f"{border}_accounts", name, "", "", getattr(balances, f"{name}_uc")
    for line in statement.by_backbone:
        name = line.backbone.hex()
        yield "backbone", name, line.vouchers, line.servings, line.earned_uc
    for epoch in statement.by_epoch:
        name = f"{epoch.epoch}:{epoch.price_table_hash.hex()}"
        yield "epoch", name, epoch.receipts, epoch.servings, epoch.earned_uc
    for model in statement.standby:
        yield "standby", model.manifest_hash.hex(), "", "", model.amount_uc
    for state in statement.states:
        name = f"{state.state}:{state.why}" if state.why else state.state.value
        yield "receipts", name, state.receipts, state.servings, state.amount_uc
    for each in statement.payouts:
        yield "payout", f"{each.id.hex()}:{each.state}", "", "", each.amount_uc


def _epoch(line: EpochLine) -> dict[str, object]:
    base_uc = line.rows * line.row_uc
    return {
        "epoch": line.epoch,
        "prices": line.price_table_hash.hex(),
        "model": line.manifest_hash.hex(),
        "receipts": line.receipts,
        "servings": line.servings,
        "rows": line.rows,
        **amounts(
            earned=line.earned_uc, base=base_uc, scarcity=line.earned_uc - base_uc
        ),
    }


def _standby(line: StandbyLine) -> dict[str, object]:
    return {
        "model": line.manifest_hash.hex(),
        "epochs": line.epochs,
        "first_epoch": line.first_epoch,
        "last_epoch": line.last_epoch,
        "replicas": line.replicas,
        **amounts(amount=line.amount_uc),
    }


def _summary_uc(statement: Statement) -> dict[str, int]:
    return {
        "opening": statement.opening_uc,
        "earned": statement.earned_uc,
        "base": statement.base_uc,
        "scarcity": statement.scarcity_uc,
        **{name: statement.moved_uc(code) for name, code in _SUMS},
        "closing": statement.closing_uc,
    }


def _summary(statement: Statement) -> dict[str, object]:
    return amounts(**_summary_uc(statement))


def _period(period: Period) -> dict[str, object]:
    return {
        "start": format_us(period.start_us),
        "end": format_us(period.end_us),
        "start_us": period.start_us,
        "end_us": period.end_us,
    }


def _balances(balances: WorkerBalances) -> dict[str, object]:
    return amounts(
        pending=balances.pending_uc,
        held=balances.held_uc,
        available=balances.available_uc,
        clearing=balances.clearing_uc,
    )


def _receipts(statement: Statement) -> dict[str, object]:
    """Return every receipt in its one state; the states' sums add up to all."""
    by_state: Mapping[ReceiptState, list[int]] = {
        state: [0, 0] for state in ReceiptState
    }
    for line in statement.states:
        by_state[line.state][0] += line.receipts
        by_state[line.state][1] += line.amount_uc
    return {
        "receipts": {
            "total": sum(n for n, _ in by_state.values()),
            **amounts(amount=sum(amount_uc for _, amount_uc in by_state.values())),
            "by_state": {
                state.value: {"receipts": n, **amounts(amount=amount_uc)}
                for state, (n, amount_uc) in by_state.items()
            },
            "lines": [
                {
                    "state": line.state.value,
                    "why": line.why,
                    "receipts": line.receipts,
                    "servings": line.servings,
                    **amounts(amount=line.amount_uc),
                }
                for line in statement.states
            ],
        },
        "rejected": [
            {
                "reason": line.why,
                "vouchers": line.receipts,
                "claimed_uc": line.amount_uc,
            }
            for line in statement.states
            if line.state == ReceiptState.REJECTED
        ],
    }


def _payouts(statement: Statement) -> list[dict[str, object]]:
    return [
        {
            "payout": each.id.hex(),
            "state": each.state,
            **amounts(amount=each.amount_uc, rounding=each.rounding_uc),
            "currency": each.currency,
            "amount_minor": each.amount_minor,
            "prepared": format_us(each.prepared_us),
            "external_ref": each.external_ref,
        }
        for each in statement.payouts
    ]


def _checkpoint(statement: Statement) -> dict[str, object] | None:
    head = statement.checkpoint
    if head is None:
        return None
    return {
        "size": head.size,
        "root": head.root.hex(),
        "time": format_us(head.posted_us),
    }


def _closed(statement: Statement) -> dict[str, object] | None:
    closed = statement.closed_period
    if closed is None:
        return None
    return {
        "name": closed.name,
        "time": format_us(closed.closed_us),
        "statement_root": closed.statement_root.hex(),
        "late": closed.late,
    }


def _line(values: tuple[object, ...]) -> str:
    sink = StringIO()
    csv.writer(sink, lineterminator="\n").writerow(values)
    return sink.getvalue()
