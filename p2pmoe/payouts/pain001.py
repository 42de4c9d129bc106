"""A bank's payment file: ISO 20022 pain.001.001.09, credit transfers of one debtor.

Contract: pure; the same orders make the same bytes. One group header, one payment
information block, one transaction an order, in the order given. Amounts are decimal
strings made of integers. The end-to-end id is the order's key, so that the bank's
statement names the payout; the message id is derived from all keys, so that a bank
that checks it refuses the same file twice. In euros it is a SEPA credit transfer (only
IBANs, shared charges). Text is cut to what the format takes, letters outside its small
Latin set are replaced by the nearest within.

Specification: ISO 20022 CustomerCreditTransferInitiationV09; EPC132-08 (SEPA customer
to bank), section 1.4 on characters. Checked against the schema in tests.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from xml.sax.saxutils import escape, quoteattr

from ledger.rates import format_money
from p2pmoe.payouts.adapter import Order

__all__ = ["Debtor", "message_id", "pack_pain001", "plain_latin"]

NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"
_ALLOWED = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-?:().,'+ "
)
_SPELLED = {"ß": "ss", "Æ": "AE", "æ": "ae", "Ø": "O", "ø": "o", "Ł": "L", "ł": "l"}
_MAX_NAME = 70
_MAX_TEXT = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class Debtor:
    """Who pays: the operator's account."""

    name: str
    iban: str
    bic: str = ""


def message_id(orders: Sequence[Order]) -> str:
    """Return the message's id: 32 hex digits, derived from the orders' keys."""
    keys = "\n".join(order.key for order in orders)
    return sha256(b"p2pmoe/pain001/v1\0" + keys.encode()).hexdigest()[:32]


def plain_latin(text: str, max_chars: int) -> str:
    """Return text in the characters that every bank takes, cut to `max_chars`."""
    found: list[str] = []
    for char in text:
        spelled = _SPELLED.get(char) or unicodedata.normalize("NFKD", char)
        found += [
            one if one in _ALLOWED else "." if not unicodedata.combining(one) else ""
            for one in spelled
        ]
    return " ".join("".join(found).split())[:max_chars].strip() or "."


def pack_pain001(
    orders: Sequence[Order], debtor: Debtor, *, created: str, execute_on: str
) -> bytes:
    """Return the file's bytes.

    Args:
        orders: at least one, all of one currency, each payee with an IBAN.
        debtor: whose account pays.
        created: the instant, `2026-12-01T08:00:00Z`.
        execute_on: the day, `2026-12-01`.
    """
    currency = orders[0].currency
    total = format_money(sum(order.amount_minor for order in orders), currency)
    name = plain_latin(debtor.name, _MAX_NAME)
    message = message_id(orders)
    header = _element(
        "GrpHdr",
        _text("MsgId", message),
        _text("CreDtTm", created),
        _text("NbOfTxs", str(len(orders))),
        _text("CtrlSum", total),
        _element("InitgPty", _text("Nm", name)),
    )
    sepa = _element("PmtTpInf", _element("SvcLvl", _text("Cd", "SEPA")))
    block = _element(
        "PmtInf",
        _text("PmtInfId", message),
        _text("PmtMtd", "TRF"),
        _text("NbOfTxs", str(len(orders))),
        _text("CtrlSum", total),
        sepa if currency == "EUR" else "",
        _element("ReqdExctnDt", _text("Dt", execute_on)),
        _element("Dbtr", _text("Nm", name)),
        _account("DbtrAcct", debtor.iban),
        _agent("DbtrAgt", debtor.bic, is_needed=True),
        _text("ChrgBr", "SLEV" if currency == "EUR" else "SHAR"),
        *map(_transaction, orders),
    )
    document = _element("CstmrCdtTrfInitn", header, block)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Document xmlns={quoteattr(NAMESPACE)}>\n{document}</Document>\n"
    ).encode()


def _transaction(order: Order) -> str:
    amount = format_money(order.amount_minor, order.currency)
    payee = order.payee
    return _element(
        "CdtTrfTxInf",
        _element(
            "PmtId",
            _text("InstrId", order.key),
            _text("EndToEndId", order.key),
        ),
        _element(
            "Amt",
            f"<InstdAmt Ccy={quoteattr(order.currency)}>{escape(amount)}</InstdAmt>\n",
        ),
        _agent("CdtrAgt", payee.bic, is_needed=False),
        _element("Cdtr", _text("Nm", plain_latin(payee.name, _MAX_NAME))),
        _account("CdtrAcct", payee.iban),
        _element("RmtInf", _text("Ustrd", _remittance(order))),
    )


def _remittance(order: Order) -> str:
    return plain_latin(f"p2pmoe payout {order.period} {order.key}", _MAX_TEXT)


def _account(name: str, iban: str) -> str:
    return _element(name, _element("Id", _text("IBAN", iban)))


def _agent(name: str, bic: str, *, is_needed: bool) -> str:
    """Return a bank: by its BIC; the debtor's must be there, if need be as unknown."""
    if bic:
        return _element(name, _element("FinInstnId", _text("BICFI", bic)))
    if not is_needed:
        return ""
    unknown = _element("Othr", _text("Id", "NOTPROVIDED"))
    return _element(name, _element("FinInstnId", unknown))


def _element(name: str, *inner: str) -> str:
    return f"<{name}>\n{''.join(inner)}</{name}>\n"


def _text(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>\n"
