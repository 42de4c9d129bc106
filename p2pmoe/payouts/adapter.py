"""How a payment is made: the small interface that every way of paying has.

Contract: an adapter is given orders that the ledger has marked as being sent. It
answers one outcome for each, in order; it says `failed` only when it knows that nothing
was or will be paid, `unresolved` whenever it does not know. An exception from it leaves
its orders as being sent, and the ledger takes these as unresolved. An order carries an
idempotency key: sent twice with the same key, it must be paid once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from p2pmoe.payouts.payees import Payee

__all__ = ["Adapter", "Order", "Outcome", "OutcomeKind"]


class OutcomeKind(StrEnum):
    """How sending ended; the ledger's words."""

    SENT = "sent"
    CONFIRMED = "confirmed"
    FAILED = "failed"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One payment to make."""

    id: str  # the payout's, 32 hex digits
    key: str  # idempotency key and end-to-end id: at most 35 characters
    period: str
    amount_minor: int
    currency: str
    payee: Payee


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one order."""

    kind: OutcomeKind
    detail: str = ""
    reference: str = ""  # what the outside calls the payment, if it said so
    stop: bool = False  # the next orders would fare the same: do not send them


class Adapter(Protocol):
    """A way of paying."""

    @property
    def name(self) -> str:
        """The name that payouts are prepared for."""
        ...

    @property
    def max_orders(self) -> int:
        """How many orders are sent in one go."""
        ...

    def refusal(self, payee: Payee) -> str:
        """Say why this payee cannot be paid this way; empty if it can."""
        ...

    def send(self, orders: Sequence[Order]) -> list[Outcome]:
        """Make the payments; one outcome for each, in order."""
        ...
