"""Compare a bank's statement with the payouts: what arrived, and what does not fit.

Contract: pure. A line is ours if its end-to-end id is a payout's key; other lines are
other business of the account and are only counted. A sent payout whose one line has
the right amount and currency, and was not returned, is to be confirmed. Everything
else that is ours is a difference with its reason; nothing is decided for the operator:
a payout that is unresolved stays so until he resolves it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.rates import format_money
from p2pmoe.payouts.statement_line import StatementLine

__all__ = ["Match", "Reconciliation", "reconcile"]

_MAX_REFERENCE = 200  # as the ledger keeps it
_KEY = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A sent payout that the bank has booked."""

    id: str
    reference: str  # the bank's, empty where it is not of this payment alone
    detail: str


@dataclass(slots=True)
class Reconciliation:
    """What a statement says about the payouts."""

    matches: list[Match] = field(default_factory=list)
    differences: list[dict[str, object]] = field(default_factory=list)
    unresolved: list[dict[str, object]] = field(default_factory=list)
    open: list[dict[str, object]] = field(default_factory=list)  # sent, not yet there
    n_confirmed: int = 0  # on the statement and confirmed before
    n_returned: int = 0  # left, came back, and known to have failed
    n_other: int = 0  # lines of other business


def reconcile(
    lines: Sequence[StatementLine], payouts: Sequence[Mapping[str, Any]]
) -> Reconciliation:
    """Compare a statement's lines with all payouts of the ledger."""
    found = Reconciliation()
    by_key = {one["key"]: one for one in payouts}
    lines_of: dict[str, list[StatementLine]] = defaultdict(list)
    for line in lines:
        key = line.end_to_end_id.strip().lower()
        if key in by_key:
            lines_of[key].append(line)
        elif _KEY.fullmatch(key):
            found.differences.append(_row(None, line, "no payout has this id"))
        else:
            found.n_other += 1
    used = Counter(line.reference for line in lines if line.reference)
    for key, one in by_key.items():
        if key in lines_of:
            _judge(found, one, lines_of[key], used)
        elif one["state"] == "sent":
            found.open.append(_row(one, None, "not on the statement"))
    return found


def _judge(
    found: Reconciliation,
    one: Mapping[str, Any],
    lines: Sequence[StatementLine],
    used: Mapping[str, int],
) -> None:
    paid = [line for line in lines if line.is_debit]
    if one["state"] == "failed" and 2 * len(paid) == len(lines):
        found.n_returned += 1  # it left, came back, and is available again
        return
    trouble = _trouble(one, lines, paid)
    if trouble:
        found.differences.append(_row(one, lines[-1], trouble))
        return
    (line,) = paid
    match one["state"]:
        case "sent":
            reference = line.reference
            is_own = used[reference] == 1 and _is_plain(reference)
            date = line.date if _is_plain(line.date) else "no date"
            found.matches.append(
                Match(
                    id=one["id"],
                    reference=reference if is_own else "",
                    detail=f"on the bank's statement, {date}",
                )
            )
        case "confirmed":
            found.n_confirmed += 1
        case "sending" | "unresolved":
            row = _row(one, line, "the bank has paid it: resolve it with --paid")
            found.unresolved.append(row)
        case state:
            reason = f"the bank has paid it, but it is {state}"
            found.differences.append(_row(one, line, reason))


def _is_plain(text: str) -> bool:
    """Say whether the ledger would keep a text: odd ones must not stop the others."""
    return 0 < len(text) <= _MAX_REFERENCE and text.isprintable()


def _trouble(
    one: Mapping[str, Any],
    lines: Sequence[StatementLine],
    paid: Sequence[StatementLine],
) -> str:
    if len(paid) < len(lines) and one["state"] == "confirmed":
        return "the bank returned it after it was confirmed: it is owed once more"
    if not paid:
        return (
            "money came in, and none left (a payment has a minus): "
            "if the bank returned it, resolve it with --not-paid"
        )
    if len(paid) < len(lines):
        return "the bank returned it: resolve it with --not-paid"
    if len(paid) > 1:
        return f"the bank has paid it {len(paid)} times"
    line = paid[0]
    if (line.amount_minor, line.currency) != (one["amount_minor"], one["currency"]):
        money = format_money(line.amount_minor, line.currency)
        return f"the bank has paid {money} {line.currency}"
    return ""


def _row(
    one: Mapping[str, Any] | None, line: StatementLine | None, reason: str
) -> dict[str, object]:
    return {
        "id": one["id"] if one else "",
        "state": one["state"] if one else "",
        "money": one["money"] if one else "",
        "currency": one["currency"] if one else line.currency if line else "",
        "end_to_end_id": line.end_to_end_id[:40] if line else "",
        "booked": format_money(line.amount_minor, line.currency) if line else "",
        "date": line.date if line else "",
        "reason": reason,
    }
