"""Bank statements as banks write them: camt.053 and CSV, from a few values."""

from p2pmoe.payouts.adapter import Order

__all__ = ["camt053", "entry", "transaction"]

_NS = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"


def transaction(order: Order, *, amount: str | None = "12.34", ref: str = "") -> str:
    """One payment within an entry, with its end-to-end id."""
    own = f"<AcctSvcrRef>{ref}</AcctSvcrRef>" if ref else ""
    money = f'<Amt Ccy="{order.currency}">{amount}</Amt>' if amount else ""
    return (
        f"<TxDtls><Refs>{own}<EndToEndId>{order.key}</EndToEndId></Refs>"
        f"{money}<CdtDbtInd>DBIT</CdtDbtInd></TxDtls>"
    )


def entry(
    *transactions: str,
    amount: str = "12.34",
    currency: str = "EUR",
    direction: str = "DBIT",
    status: str = "<Cd>BOOK</Cd>",
    ref: str = "E-1",
) -> str:
    """One entry on the account."""
    details = f"<NtryDtls>{''.join(transactions)}</NtryDtls>" if transactions else ""
    return (
        f'<Ntry><Amt Ccy="{currency}">{amount}</Amt><CdtDbtInd>{direction}</CdtDbtInd>'
        f"<Sts>{status}</Sts><BookgDt><Dt>2026-12-03</Dt></BookgDt>"
        f"<AcctSvcrRef>{ref}</AcctSvcrRef>{details}</Ntry>"
    )


def camt053(*entries: str) -> bytes:
    """A whole statement."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f'<Document xmlns="{_NS}"><BkToCstmrStmt>'
        "<GrpHdr><MsgId>1</MsgId><CreDtTm>2026-12-04T00:00:00Z</CreDtTm></GrpHdr>"
        "<Stmt><Id>1</Id><Acct><Id><IBAN>DE89370400440532013000</IBAN></Id></Acct>"
        '<Bal><Amt Ccy="EUR">100.00</Amt></Bal>'
        f"{''.join(entries)}</Stmt></BkToCstmrStmt></Document>"
    ).encode()
