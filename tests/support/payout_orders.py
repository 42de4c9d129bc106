"""Orders to pay, for tests of the ways of paying."""

from p2pmoe.payouts.adapter import Order
from p2pmoe.payouts.payees import Payee

__all__ = ["IBAN", "order"]

IBAN = "DE89370400440532013000"


def order(
    n: int = 1,
    *,
    minor: int = 1234,
    currency: str = "EUR",
    name: str = "Ada Lovelace",
    **payee: str,
) -> Order:
    """Order `n`: its id and key are `n` in hex."""
    details = {"iban": IBAN, "id": f"acct_{n}"} | payee
    return Order(
        id=f"{n:032x}",
        key=f"{n:032x}",
        period="2026-11",
        amount_minor=minor,
        currency=currency,
        payee=Payee(worker=bytes([n % 256]) * 32, name=name, **details),
    )
