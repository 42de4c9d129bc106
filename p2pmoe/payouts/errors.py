"""What can be wrong around a payout, as one small tree.

PayoutError(ConfigurationError)
  PayeesBroken      a payee file cannot be read
  StatementBroken   a bank's statement cannot be read
  SendingBusy       another command is sending this ledger's payouts
  Unresolved        it is not known whether something was paid (exit code 3)
"""

from p2pmoe.errors import ConfigurationError

__all__ = [
    "PayeesBroken",
    "PayoutError",
    "SendingBusy",
    "StatementBroken",
    "Unresolved",
]


class PayoutError(ConfigurationError):
    """Root of the errors around payouts."""


class PayeesBroken(PayoutError):
    """A payee file cannot be read."""

    advice = "write CSV with the columns worker, name, iban (or id), or TOML"


class StatementBroken(PayoutError):
    """A bank's statement cannot be read."""

    advice = "export it as camt.053 (XML), or CSV with the columns of the how-to"


class SendingBusy(PayoutError):
    """Another command is sending this ledger's payouts."""

    advice = "wait until it has ended"


class Unresolved(PayoutError):
    """It is not known whether a payment was made; nothing is paid or credited twice."""

    advice = (
        "ask the bank, then say it with `p2pmoe ledger payout resolve ID --paid` or "
        "--not-paid"
    )
    exit_code = 3
