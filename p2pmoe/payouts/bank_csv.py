"""A bank's statement as CSV, for banks without camt.053.

Contract: pure. A header names the columns, in any order, separated by commas or
semicolons; others are ignored:

    end_to_end_id,amount,currency,date,reference
    3c9d...(32 hex),-12.34,EUR,2026-12-03,B-77

The amount has a decimal point and a sign: minus is money that left the account. `date`
and `reference` may be missing. Every fault names its line.
"""

import csv
import io

from ledger.errors import OperationRefused
from ledger.rates import parse_money
from p2pmoe.payouts.errors import StatementBroken
from p2pmoe.payouts.statement_line import StatementLine

__all__ = ["parse_bank_csv"]

_NEEDED = ("end_to_end_id", "amount", "currency")
_MAX_LINES = 200_000
_MAX_CELL = 2000


def parse_bank_csv(raw: bytes) -> list[StatementLine]:
    """Return the lines of a statement.

    Raises:
        StatementBroken: no such CSV, or a line that cannot be read.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise StatementBroken("the statement is neither XML nor UTF-8 text") from exc
    first_line = text.partition("\n")[0]
    delimiter = ";" if first_line.count(";") > first_line.count(",") else ","
    reader = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=delimiter, strict=True
    )
    lines: list[StatementLine] = []
    try:
        names = list(reader.fieldnames or ())
        missing = [name for name in _NEEDED if name not in names]
        if missing:
            raise StatementBroken(f"the statement has no column {', '.join(missing)}")
        if len(set(names)) < len(names):
            raise StatementBroken("the statement has two columns of one name")
        for row in reader:
            if len(lines) >= _MAX_LINES:
                raise StatementBroken(f"the statement has over {_MAX_LINES} lines")
            lines.append(_line(row, reader.line_num))
    except csv.Error as exc:
        raise StatementBroken(f"line {reader.line_num} is no CSV: {exc}") from exc
    return lines


def _line(row: dict[str | None, str | list[str] | None], number: int) -> StatementLine:
    cells: dict[str, str] = {}
    if None in row:  # an amount with a decimal comma, perhaps
        raise StatementBroken(f"line {number} has more cells than the header")
    for name in (*_NEEDED, "date", "reference"):
        cell = row.get(name) or ""
        if not isinstance(cell, str) or len(cell) > _MAX_CELL:
            raise StatementBroken(f"line {number}: {name} cannot be read")
        cells[name] = cell.strip()
    amount, currency = cells["amount"], cells["currency"]
    if len(currency) != 3 or not currency.isascii() or not currency.isupper():
        raise StatementBroken(f"line {number}: no currency: {currency[:20]!r}")
    try:
        unsigned = amount[1:] if amount[:1] in {"+", "-"} else amount
        minor = parse_money(unsigned, currency)
    except OperationRefused as exc:
        raise StatementBroken(f"line {number}: {exc}") from exc
    return StatementLine(
        end_to_end_id=cells["end_to_end_id"],
        amount_minor=minor,
        currency=currency,
        is_debit=amount.startswith("-"),
        date=cells["date"][:10],
        reference=cells["reference"],
    )
