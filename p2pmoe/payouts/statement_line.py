"""One line of a bank's statement, whatever the statement's format.

Contract: a line has the end-to-end id that the payment went out with, if the bank kept
it; amounts are whole minor units, without sign.
"""

from dataclasses import dataclass

__all__ = ["StatementLine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLine:
    """One booked movement on the account."""

    end_to_end_id: str  # empty if the bank names none
    amount_minor: int  # without sign
    currency: str
    is_debit: bool  # money left; else it came in, as a payment that was returned
    date: str  # 2026-12-03, or empty
    reference: str  # the bank's own, of this movement; may be empty
