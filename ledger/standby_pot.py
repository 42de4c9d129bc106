"""The operation that fills the pot of standby pay.

Contract: as `ledger.office`. The pot is filled with credit from outside or with fees
that the ledger earned, once for each note; nothing but standby pay leaves it. Without
`commit` it is said and nothing moves.
"""

from collections.abc import Mapping

from ledger.accounts import EXTERNAL_OWNER, AccountKind, Posting, TransferCode
from ledger.amounts import MAX_AMOUNT_UC, format_credits
from ledger.errors import InsufficientFunds, OperationRefused
from ledger.office import Office, Operation
from ledger.params import Params
from ledger.standby_booking import POT

__all__ = ["POT_OPERATIONS", "POT_SOURCES", "fund_pot"]

# Where the pot's money comes from: by name, the transfer's code and its debit.
POT_SOURCES: Mapping[str, tuple[TransferCode, AccountKind]] = {
    "outside": (TransferCode.ENDOW, AccountKind.EXTERNAL),
    "fees": (TransferCode.ALLOT, AccountKind.FEE),
}
_MAX_NOTE = 200


def fund_pot(office: Office, params: Mapping[str, object]) -> dict[str, object]:
    """Fill the pot: `amount_uc`, `source`, `note`, `commit`.

    Answers whether it is new under this note, and what the pot holds then.

    Raises:
        OperationRefused: a parameter cannot be read.
        InsufficientFunds: there are fewer fees than that.
        TransferConflict: the note was used for another amount.
    """
    read = Params(params)
    amount_uc = read.whole("amount_uc", at_least=1, at_most=MAX_AMOUNT_UC)
    source = read.text("source", max_chars=20)
    note = read.text("note", max_chars=_MAX_NOTE)
    commit = read.flag("commit")
    read.done()
    if source not in POT_SOURCES:
        raise OperationRefused(f"source {source!r} is none of {', '.join(POT_SOURCES)}")
    if not note:
        raise OperationRefused("a note is missing: the same note is not booked twice")
    code, kind = POT_SOURCES[source]
    posting = Posting(
        code=code,
        key=note.encode(),
        debit=(EXTERNAL_OWNER, kind),
        credit=POT,
        amount_uc=amount_uc,
        reference=note.encode(),
    )
    is_new = True
    if commit:
        is_new = office.desk.book.post(posting, office.now_us)
    elif code == TransferCode.ALLOT:
        _refuse_missing(office, amount_uc)
    pot = office.desk.book.find(*POT)
    held_uc = pot.balance_uc if pot else 0
    return {
        "committed": commit,
        "new": is_new,
        "amount_uc": amount_uc,
        "amount": format_credits(amount_uc),
        "pot_uc": held_uc,
        "pot": format_credits(held_uc),
    }


POT_OPERATIONS: dict[str, Operation] = {"standby.fund": fund_pot}


def _refuse_missing(office: Office, amount_uc: int) -> None:
    fees = office.desk.book.find(EXTERNAL_OWNER, AccountKind.FEE)
    held_uc = fees.balance_uc if fees else 0
    if held_uc < amount_uc:
        raise InsufficientFunds(
            f"there are {format_credits(held_uc)} credits of fees, not "
            f"{format_credits(amount_uc)}"
        )
