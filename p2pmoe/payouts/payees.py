"""The payee file: which worker is paid to whom and where.

Contract: a CSV file with a header, or a TOML file with one table a worker:

    worker,name,iban,bic,id
    3f2a...(64 hex),Ada Lovelace,DE89 3704 0044 0532 0130 00,,

    [payee.3f2a...]
    name = "Ada Lovelace"
    iban = "DE89370400440532013000"

`iban` (and `bic`, if the bank wants one) is for the bank, `id` for the HTTP callback;
either may be empty. A line that is wrong is kept with its reason: it keeps nobody else
from being paid. Two lines for one worker are both refused. The file is the operator's;
only the name goes into the ledger.
"""

import csv
import io
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import read_bounded
from p2pmoe.payouts.errors import PayeesBroken
from p2pmoe.payouts.iban import check_bic, check_iban

__all__ = ["Payee", "Payees", "parse_payees", "read_payees"]

_MAX_BYTES = 16 << 20
_MAX_PAYEES = 20_000
_MAX_NAME = 70  # characters that every bank takes
_MAX_ID = 200
_MAX_DOTS = 1 << 22  # sum over all lines of their dots, squared
_COLUMNS = ("worker", "name", "iban", "bic", "id")
_WORKER = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payee:
    """Who is paid for a worker's work."""

    worker: bytes  # [32]
    name: str
    iban: str = ""
    bic: str = ""
    id: str = ""


@dataclass(slots=True)
class Payees:
    """What a payee file says: those that can be paid, and the others with a reason."""

    good: dict[bytes, Payee] = field(default_factory=dict)
    bad: dict[bytes, str] = field(default_factory=dict)


def read_payees(path: Path) -> Payees:
    """Read a payee file; TOML by its name, else CSV.

    Raises:
        PayeesBroken: the file cannot be read as a whole.
    """
    try:
        raw = read_bounded(path, _MAX_BYTES)
    except FolderUnusable as exc:
        raise PayeesBroken(str(exc)) from exc
    if raw is None:
        raise PayeesBroken(f"there is no payee file {path}")
    try:
        text = raw.decode("utf-8-sig")  # as spreadsheets write it
    except UnicodeDecodeError as exc:
        raise PayeesBroken(f"{path} is not UTF-8") from exc
    return parse_payees(text, is_toml=path.suffix.lower() == ".toml")


def parse_payees(text: str, *, is_toml: bool) -> Payees:
    """Read the text of a payee file.

    Raises:
        PayeesBroken: no CSV or TOML of this kind, too many lines, or no worker's id.
    """
    found = Payees()
    rows = _toml_rows(text) if is_toml else _csv_rows(text)
    for number, row in enumerate(rows, 1):
        if number > _MAX_PAYEES:
            raise PayeesBroken(f"more than {_MAX_PAYEES} payees")
        worker = _worker(row.get("worker", ""), number)
        if worker in found.good or worker in found.bad:
            found.good.pop(worker, None)
            found.bad[worker] = "two payees for one worker"
            continue
        try:
            found.good[worker] = _payee(worker, row)
        except PayeesBroken as exc:
            found.bad[worker] = str(exc)
    return found


def _payee(worker: bytes, row: Mapping[str, str]) -> Payee:
    name = " ".join(row.get("name", "").split())
    if not 0 < len(name) <= _MAX_NAME or not name.isprintable():
        raise PayeesBroken(f"name {name[:80]!r} is not 1 to {_MAX_NAME} characters")
    iban, bic, url_id = (row.get(column, "").strip() for column in _COLUMNS[2:])
    if len(url_id) > _MAX_ID or not url_id.isprintable():
        raise PayeesBroken(f"id {url_id[:40]!r} is not up to {_MAX_ID} characters")
    return Payee(
        worker=worker,
        name=name,
        iban=check_iban(iban) if iban else "",
        bic=check_bic(bic) if bic else "",
        id=url_id,
    )


def _worker(text: str, number: int) -> bytes:
    worker = text.strip().lower()
    if not _WORKER.fullmatch(worker):
        raise PayeesBroken(f"payee {number}: worker {text[:70]!r} is not 64 hex digits")
    return bytes.fromhex(worker)


def _csv_rows(text: str) -> Iterable[Mapping[str, str]]:
    first_line = text.partition("\n")[0]
    delimiter = ";" if first_line.count(";") > first_line.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [column.strip().lower() for column in next(reader, [])]
        unknown = [column for column in header if column not in _COLUMNS]
        if unknown or len(set(header)) < len(header) or "worker" not in header:
            raise PayeesBroken(f"the header is {first_line.strip()[:80]!r}")
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise PayeesBroken(
                    f"line {reader.line_num} has {len(row)} columns, not {len(header)}"
                )
            yield dict(zip(header, row, strict=True))
    except csv.Error as exc:
        raise PayeesBroken(f"line {reader.line_num} is no CSV: {exc}") from exc


def _toml_rows(text: str) -> Iterable[Mapping[str, str]]:
    # To read a key of n parts takes n * n steps.
    if sum(line.count(".") ** 2 for line in text.splitlines()) > _MAX_DOTS:
        raise PayeesBroken("TOML with too many dotted keys")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # a huge number's ValueError, too
        raise PayeesBroken(f"no TOML: {str(exc)[:100]}") from exc
    tables = document.pop("payee", {})
    if document or not isinstance(tables, dict):
        raise PayeesBroken("TOML that is not tables [payee.WORKER] alone")
    for worker, table in tables.items():
        if not isinstance(table, dict):
            raise PayeesBroken(f"payee.{worker[:70]} is no table")
        for name, value in table.items():
            if name not in _COLUMNS[1:] or not isinstance(value, str):
                raise PayeesBroken(f"payee.{worker[:8]}: {name[:40]} = {value!r:.40}")
        yield {"worker": worker, **table}
