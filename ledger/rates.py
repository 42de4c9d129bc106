"""What a credit is worth in money: an exact rate, and whole minor units of a currency.

Contract: a rate is a fraction `n/d` of micro-credits for one minor unit (a cent). Money
is an integer of minor units; what is too little for one more stays in credits. Nobody
gets more money than the credits taken are worth. There is no float. Pure.

Source: ISO 4217 for currencies whose minor unit is not a hundredth.
"""

import re
from dataclasses import dataclass
from math import gcd

from ledger.amounts import UC_PER_CREDIT
from ledger.errors import OperationRefused

__all__ = ["MAX_MINOR", "Rate", "decimals_of", "format_money", "parse_money"]

MAX_MINOR = 99_999_999_999  # of one payment: 999,999,999.99, the bank format's limit
_MAX_TERM = 10**18
_NONE = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE = "BHD IQD JOD KWD LYD OMR TND"
_NO_DECIMALS, _THREE_DECIMALS = frozenset(_NONE.split()), frozenset(_THREE.split())
_NUMBER = r"(\d{1,12})(?:\.(\d{1,12}))?"
_RATE = re.compile(rf"{_NUMBER} credits? = {_NUMBER} ([A-Z]{{3}})", re.ASCII)
_MONEY = re.compile(r"(\d{1,18})(?:\.(\d{1,5}))?", re.ASCII)


def decimals_of(currency: str) -> int:
    """Return how many decimals a currency's amounts have."""
    if currency in _NO_DECIMALS:
        return 0
    return 3 if currency in _THREE_DECIMALS else 2


def format_money(minor: int, currency: str) -> str:
    """Return minor units as the decimal number that a bank expects."""
    places = decimals_of(currency)
    sign, minor = ("-" if minor < 0 else ""), abs(minor)
    whole, part = divmod(minor, 10**places)
    return f"{sign}{whole}.{part:0{places}d}" if places else f"{sign}{whole}"


def parse_money(text: str, currency: str) -> int:
    """Return a decimal number without sign as minor units, exactly.

    Raises:
        OperationRefused: no such number, or a fraction of a minor unit.
    """
    match = _MONEY.fullmatch(text)
    if match is None:
        raise OperationRefused(f"no amount of money: {text[:40]!r}")
    whole, part = match.group(1), match.group(2) or ""
    places = decimals_of(currency)
    if part[places:].strip("0"):
        raise OperationRefused(f"{text} {currency} is a fraction of a minor unit")
    return int(whole + part[:places].ljust(places, "0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Micro-credits for one minor unit: `n / d`, in lowest terms."""

    n: int
    d: int
    currency: str

    def __str__(self) -> str:
        """Return `n/d`, as it is stored with a payout."""
        return f"{self.n}/{self.d}"

    @classmethod
    def parse(cls, text: str) -> "Rate":
        """Read `1 credit = 0.01 EUR`.

        Raises:
            OperationRefused: nothing of that kind, or zero.
        """
        match = _RATE.fullmatch(" ".join(text.split()))
        if match is None:
            raise OperationRefused(
                f"rate {text[:60]!r} is not like '1 credit = 0.01 EUR'"
            )
        currency = match.group(5)
        amount_uc, of_credits = _decimal(match.group(1), match.group(2))
        money, of_money = _decimal(match.group(3), match.group(4))
        n = amount_uc * UC_PER_CREDIT * of_money
        d = money * 10 ** decimals_of(currency) * of_credits
        if n == 0 or d == 0:
            raise OperationRefused(f"rate {text[:60]!r} has a zero")
        common = gcd(n, d)
        n, d = n // common, d // common
        if max(n, d) > _MAX_TERM:
            raise OperationRefused(f"rate {text[:60]!r} has too many digits")
        return cls(n=n, d=d, currency=currency)

    def minor(self, amount_uc: int) -> int:
        """Return the whole minor units that an amount is worth, rounded down."""
        return max(0, amount_uc) * self.d // self.n

    def credits_uc(self, minor: int) -> int:
        """Return the micro-credits that so many minor units cost, rounded up."""
        return -(-minor * self.n // self.d)


def _decimal(whole: str, part: str | None) -> tuple[int, int]:
    """Return a decimal number as numerator and power of ten."""
    digits = part or ""
    return int(whole + digits), 10 ** len(digits)
