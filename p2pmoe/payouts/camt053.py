"""A bank's statement as ISO 20022 camt.053 (any version): its booked movements.

Contract: pure and hostile-proof: a document type declaration is refused (so there are
no entities), depth, text and number of entries are bounded, an entry is dropped as soon
as it was read. Elements are known by their local names, since versions differ in
namespace only. An entry that books several payments at once gives one line for each,
with the amount of its transaction; a batch whose transactions have no amounts cannot
be told apart and is refused.

Specification: ISO 20022 BankToCustomerStatement (camt.053.001.02 to .13).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from ledger.errors import OperationRefused
from ledger.rates import parse_money
from p2pmoe.payouts.errors import StatementBroken
from p2pmoe.payouts.statement_line import StatementLine

__all__ = ["parse_camt053"]

_MAX_DEPTH = 40
_MAX_TEXT = 2000  # characters of one element
_MAX_LINES = 200_000
_MAX_NODES = 250_000  # of one entry: thousands of payments
_BOOKED = "BOOK"
_NOT_GIVEN = "NOTPROVIDED"


@dataclass(slots=True)
class _Node:
    name: str
    currency: str = ""
    text: str = ""
    children: "list[_Node]" = field(default_factory=list)

    def all(self, *path: str) -> "Iterator[_Node]":
        """Return every node at a path of local names below this one."""
        if not path:
            yield self
            return
        for child in self.children:
            if child.name == path[0]:
                yield from child.all(*path[1:])

    def first(self, *path: str) -> "_Node | None":
        return next(self.all(*path), None)

    def text_at(self, *path: str) -> str:
        found = self.first(*path)
        return found.text.strip() if found else ""


def parse_camt053(raw: bytes) -> list[StatementLine]:
    """Return the booked lines of a statement.

    Raises:
        StatementBroken: no such XML, or an entry that cannot be understood.
    """
    reader = _Reader()
    try:
        reader.parser.Parse(raw, True)
    except (expat.ExpatError, LookupError, ValueError) as exc:  # the encoding's too
        raise StatementBroken(f"the statement is no XML: {exc}") from exc
    if not reader.is_statement:
        raise StatementBroken("the XML is no camt.053 statement")
    return reader.lines


class _Reader:
    """Builds one entry at a time, and turns it into lines."""

    def __init__(self) -> None:
        self.lines: list[StatementLine] = []
        self.is_statement = False
        self._stack: list[_Node] = []
        self._n_entries = 0
        self._n_nodes = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_text

    def _refuse_doctype(self, *_: object) -> None:
        raise StatementBroken("the statement has a document type declaration")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        if len(self._stack) >= _MAX_DEPTH:
            raise StatementBroken(f"the statement is nested deeper than {_MAX_DEPTH}")
        self._n_nodes += 1
        if self._n_nodes > _MAX_NODES:
            raise StatementBroken(f"entry {self._n_entries + 1} is too large")
        node = _Node(name=local, currency=attributes.get("Ccy", "")[:3])
        self.is_statement = self.is_statement or local == "BkToCstmrStmt"
        if self._stack:
            self._stack[-1].children.append(node)
        self._stack.append(node)

    def _add_text(self, text: str) -> None:
        if self._stack:
            node = self._stack[-1]
            if len(node.text) + len(text) > _MAX_TEXT:
                raise StatementBroken(f"{node.name} has over {_MAX_TEXT} characters")
            node.text += text

    def _end(self, _: str) -> None:
        node = self._stack.pop()
        if node.name == "Ntry":
            self._n_entries += 1
            self.lines += _lines_of(node, self._n_entries)
            if len(self.lines) > _MAX_LINES:
                raise StatementBroken(f"the statement has over {_MAX_LINES} lines")
        inside_entry = any(parent.name == "Ntry" for parent in self._stack)
        if not inside_entry and self._stack:
            self._stack[-1].children.clear()  # read, or of no interest
            self._n_nodes = 0


def _lines_of(entry: _Node, number: int) -> Iterator[StatementLine]:
    status = entry.text_at("Sts", "Cd") or entry.text_at("Sts")
    if status != _BOOKED:
        return
    details = list(entry.all("NtryDtls", "TxDtls"))
    if len(details) <= 1:
        yield _line(entry, details[0] if details else entry, number, is_alone=True)
        return
    for detail in details:
        yield _line(entry, detail, number, is_alone=False)


def _line(entry: _Node, detail: _Node, number: int, *, is_alone: bool) -> StatementLine:
    whole, part = entry.first("Amt"), _amount_of(detail)
    # Alone, the entry's amount is what moved on this account.
    amount = whole if is_alone else part
    if amount is None:
        raise StatementBroken(f"entry {number} has a payment without an amount")
    currency = amount.currency
    direction = detail.text_at("CdtDbtInd") or entry.text_at("CdtDbtInd")
    if direction not in {"CRDT", "DBIT"}:
        raise StatementBroken(f"entry {number} neither credits nor debits")
    try:
        minor = parse_money(amount.text.strip(), currency)
    except OperationRefused as exc:
        raise StatementBroken(f"entry {number}: {exc}") from exc
    end_to_end = detail.text_at("Refs", "EndToEndId")
    own = detail.text_at("Refs", "AcctSvcrRef") or detail.text_at("Refs", "TxId")
    if is_alone:
        own = own or entry.text_at("AcctSvcrRef")
    return StatementLine(
        end_to_end_id="" if end_to_end == _NOT_GIVEN else end_to_end,
        amount_minor=minor,
        currency=currency,
        is_debit=direction == "DBIT",
        date=(entry.text_at("BookgDt", "Dt") or entry.text_at("BookgDt", "DtTm"))[:10],
        reference=own,
    )


def _amount_of(detail: _Node) -> _Node | None:
    for path in (("Amt",), ("AmtDtls", "TxAmt", "Amt"), ("AmtDtls", "InstdAmt", "Amt")):
        found = detail.first(*path)
        if found is not None:
            return found
    return None
