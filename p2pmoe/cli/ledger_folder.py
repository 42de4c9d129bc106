"""What the ledger's commands share: their options, the folder, the expected ids."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Generator

    from ledger.database import LedgerIdentity, Reader
    from ledger.periods import Period

__all__ = [
    "READING",
    "AsJson",
    "BackboneId",
    "Data",
    "LedgerKey",
    "MarketKey",
    "NetworkKey",
    "PeriodText",
    "WorkerId",
    "expected_identity",
    "ledger_path",
    "open_reader",
    "parse_hex",
    "print_lines",
    "shown_period",
]

READING = "reading the ledger"  # said where it takes more than a moment
_KEYS = ("ledger.identity", "network.key")  # of an operator's folder

Data = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="The relay's folder, or the ledger's own in it."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PeriodText = Annotated[
    str | None,
    typer.Option(metavar="PERIOD", help="2026, 2026-11, 2026-11-30 or A..B, in UTC."),
]
WorkerId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="A worker's id, or 8 or more of its digits."),
]
BackboneId = Annotated[
    str | None, typer.Option(metavar="ID", help="A backbone's id, likewise.")
]
NetworkKey = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Expected network id (64 hex); else the folder's."),
]
LedgerKey = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Expected ledger id (64 hex); else the folder's."),
]
MarketKey = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Expected market id (64 hex); else the folder's."),
]


def ledger_path(data: Path | None) -> Path:
    """Return the ledger's own folder: the one given, or the operator's that holds it.

    Without `data` it is in the operator's default folder. Of a folder without a ledger
    yet, one with a service's or the network's key is an operator's.
    """
    from ledger.database import LedgerFolder
    from p2pmoe.network.folder import OperatorFolder, default_folder

    if data is None:
        return OperatorFolder(default_folder()).ledger
    inner = data / "ledger"
    if LedgerFolder(inner).holds_ledger:
        return inner
    is_operators = any((data / key).exists() for key in _KEYS)
    return inner if is_operators and not LedgerFolder(data).holds_ledger else data


def open_reader(data: Path | None) -> "Reader":
    """Open a ledger for reading: its own folder, or the operator's that holds it.

    Without `data` it is the operator's default folder.

    Raises:
        StoreUnavailable: there is no readable ledger.
    """
    from ledger.database import Reader

    return Reader(ledger_path(data))


def expected_identity(
    network: str | None, ledger: str | None, market: str | None, data: Path | None
) -> "LedgerIdentity":
    """Return the ids to check against: those given, else the folder's."""
    from ledger.database import LedgerIdentity

    if network and ledger and market:
        return LedgerIdentity(
            network=parse_hex(network, "network id", 32),
            ledger=parse_hex(ledger, "ledger id", 32),
            market=parse_hex(market, "market id", 32),
        )
    own = open_reader(data).identity
    return LedgerIdentity(
        network=parse_hex(network, "network id", 32) if network else own.network,
        ledger=parse_hex(ledger, "ledger id", 32) if ledger else own.ledger,
        market=parse_hex(market, "market id", 32) if market else own.market,
    )


def parse_hex(text: str, what: str, n_bytes: int) -> bytes:
    """Read an id given as hex.

    Raises:
        ConfigurationError: not `n_bytes` bytes of hex.
    """
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != n_bytes:
        raise ConfigurationError(f"{what} {text!r} is not {2 * n_bytes} hex digits")
    return raw


def print_lines(lines: "Generator[str, None, None]") -> None:
    """Print lines that end in a newline of their own, as they come."""
    with closing(lines):
        for line in lines:
            print(line, end="")


def shown_period(period: "Period") -> str:
    """Return a period for people: both borders, or that there are none."""
    from ledger.periods import ALL_TIME

    return "all time" if period == ALL_TIME else str(period)
