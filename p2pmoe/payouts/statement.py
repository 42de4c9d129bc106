"""Read a bank's statement, in whichever of two formats it comes.

Contract: the file is hostile: bounded, parsed by `camt053` or `bank_csv`, and every
fault is a `StatementBroken` that says where.
"""

from pathlib import Path

from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import read_bounded
from p2pmoe.payouts.bank_csv import parse_bank_csv
from p2pmoe.payouts.camt053 import parse_camt053
from p2pmoe.payouts.errors import StatementBroken
from p2pmoe.payouts.statement_line import StatementLine

__all__ = ["read_statement"]

_MAX_BYTES = 64 << 20


def read_statement(path: Path) -> list[StatementLine]:
    """Read a camt.053 file, or CSV, told apart by its first character.

    Raises:
        StatementBroken: it cannot be read.
    """
    try:
        raw = read_bounded(path, _MAX_BYTES)
    except FolderUnusable as exc:
        raise StatementBroken(str(exc)) from exc
    if raw is None:
        raise StatementBroken(f"there is no file {path}")
    start = raw[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"<"):
        return parse_camt053(raw)
    return parse_bank_csv(raw)
