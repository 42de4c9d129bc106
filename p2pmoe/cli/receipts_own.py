"""`p2pmoe receipts list|verify|statement|login`: a worker's own side of its pay.

`list` and `verify` read the copy that `contribute` keeps of everything it filed, also
while it runs; `verify` compares it with the ledger's books: a file that the operator
gave, or what the relay shows its owner. Exit codes: 0 done, 1 something differs, 2
wrong input or no ledger.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from p2pmoe.cli.authority import CaFile, use_authorities
from p2pmoe.cli.ledger_folder import AsJson, PeriodText
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mobile_worker.servings.own_copy import OwnReceipt
    from mobile_worker.session.identity import Identity
    from p2pmoe.receipts.asking import OwnLedger
    from p2pmoe.receipts.comparison import Checked, LedgerRow

__all__ = ["add_own_commands"]

WorkerFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="The worker's folder."),
]
InviteFile = Annotated[
    Path | None,
    typer.Option("--invite", metavar="FILE", help="Invite file; else P2PMOE_INVITE."),
]
BooksFile = Annotated[
    Path | None,
    typer.Option(
        "--books",
        metavar="FILE",
        help="What `p2pmoe ledger receipts --json` printed, in place of asking.",
    ),
]
# Of a statement; `closing` is the sum of what stands before it.
_AMOUNTS = (
    "opening",
    "earned",
    "standby",
    "fees",
    "reversed",
    "penalties",
    "rounding",
    "paid",
    "closing",
)
_PARTS = ("pending", "held", "available", "clearing")  # of what is owed at the end
_MAX_BOOKS_BYTES = 1 << 30
_DAY_US = 86_400_000_000
T = TypeVar("T")


def add_own_commands(group: typer.Typer) -> None:
    """Add the four commands to the group `receipts`."""
    group.command("list")(_list)
    group.command("verify")(_verify)
    group.command("statement")(_statement)
    group.command("login")(_login)


def _list(
    period: PeriodText = None, data: WorkerFolder = None, as_json: AsJson = False
) -> None:
    """List what this worker filed, and what the ledger answered."""
    from ledger.amounts import format_credits
    from ledger.periods import ALL_TIME, format_us, parse_period
    from ledger.voucher import Voucher, voucher_hash
    from p2pmoe.cli.tables import print_json, print_rows

    span = parse_period(period) if period else ALL_TIME
    rows = []
    for receipt in _own(data):
        if receipt.answered_us not in span:
            continue
        voucher = Voucher.parse(receipt.signed.raw)
        rows.append(
            {
                "time": format_us(receipt.answered_us),
                "status": receipt.status.name.lower(),
                "reason": receipt.reason,
                "backbone": voucher.backbone.hex(),
                "tab": voucher.tab.hex(),
                "epoch": voucher.price_epoch,
                "number": voucher.number,
                "servings": voucher.leaves,
                "amount_uc": voucher.amount_uc,
                "amount": format_credits(voucher.amount_uc),
                "voucher": voucher_hash(receipt.signed.raw).hex(),
            }
        )
    if as_json:
        print_json({"receipts": rows})
        return
    columns = ("time", "status", "reason", "tab", "number", "servings", "amount")
    print_rows(columns, rows, "Own receipts (sums of each tab so far)")


def _verify(
    books: BooksFile = None,
    invite: InviteFile = None,
    data: WorkerFolder = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare the own receipts with the ledger's books, signature by signature."""
    from ledger.amounts import format_credits
    from ledger.errors import DifferenceFound
    from p2pmoe.cli.tables import print_json, print_rows, print_values
    from p2pmoe.receipts.comparison import check_own, compare

    use_authorities(ca)
    identity = _identity(data)
    own, wrong = check_own(_own(data), identity.peer_id)
    if books is not None:
        rows = [row for row in _read_books(books) if row.key.worker == identity.peer_id]
    else:
        rows = _ask_rows(identity, invite, own)
    compared = compare(own, rows)
    found = [
        {
            "voucher": each.voucher.hex(),
            "tab": each.tab.hex(),
            "epoch": each.price_epoch,
            "number": each.number,
            "what": each.what,
        }
        for each in (*wrong, *compared.differences)
    ]
    values: dict[str, object] = {
        "receipts": compared.receipts,
        "servings": compared.servings,
        "amount_uc": compared.amount_uc,
        "amount": format_credits(compared.amount_uc),
        "older_in_ledger": compared.older,
        "differing": len(found),
    }
    if as_json:
        print_json(values | {"differences": found})
    else:
        print_values(values)
        if found:
            print_rows(("voucher", "tab", "number", "what"), found, "Differences")
    if found:
        error = DifferenceFound(f"{len(found)} receipts differ from the ledger's books")
        if books is not None and not rows:
            error.advice = (
                f"None in {books} is of this worker: give what `p2pmoe ledger "
                f"receipts --worker {identity.peer_id.hex()} --json` printed."
            )
        raise error


def _statement(
    period: PeriodText = None,
    invite: InviteFile = None,
    data: WorkerFolder = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Print what the ledger says this worker earned, was held back and was paid."""
    from p2pmoe.cli.tables import print_json, print_values

    use_authorities(ca)
    if period is not None:
        from ledger.periods import parse_period

        parse_period(period)
    told = _asking(
        _identity(data), invite, lambda ledger: ledger.statement(period or "")
    )
    if as_json:
        print_json(told)
        return
    values: dict[str, object] = {"worker": told.get("worker", "")}
    span = told.get("period")
    if isinstance(span, dict):
        values["period"] = f"[{span.get('start')}, {span.get('end')})"
    values |= {name: told.get(name, "") for name in _AMOUNTS}
    accounts = told.get("accounts")
    parts = accounts.get("closing") if isinstance(accounts, dict) else None
    if isinstance(parts, dict):
        values |= {name: parts.get(name, "") for name in _PARTS}
    print_values(values)


def _login(
    invite: InviteFile = None, data: WorkerFolder = None, ca: CaFile = None
) -> None:
    """Print a link that shows your own account in a browser for an hour."""
    import sys

    use_authorities(ca)
    endpoints: list[str] = []

    async def log_in(ledger: "OwnLedger") -> str:
        return await ledger.log_in()

    session = _asking(_identity(data), invite, log_in, endpoints.append)
    address = endpoints[0].removesuffix(":443")
    print(f"https://{address}/ledger#session={session}")
    print(
        "whoever has this link sees your account for an hour, and can change nothing",
        file=sys.stderr,
    )


def _own(data: Path | None) -> "list[OwnReceipt]":
    from mobile_worker.servings.own_copy import read_receipts

    folder = _folder(data) / "receipts"
    receipts = list(read_receipts(folder))
    if not receipts:
        raise ConfigurationError(
            f"{folder} holds no receipts",
            advice="name the folder of a worker that has served with --data",
        )
    return receipts


def _folder(data: Path | None) -> Path:
    from p2pmoe.cli.data_folders import worker_folder

    return data or worker_folder()


def _identity(data: Path | None) -> "Identity":
    from mobile_worker.session.identity import read_to_sign

    return read_to_sign(_folder(data) / "identity")


def _read_books(path: Path) -> "list[LedgerRow]":
    from p2pmoe.cli.paper_files import read_bounded_file
    from p2pmoe.receipts.comparison import parse_rows
    from p2pmoe.strict_json import NotStrict, parse_json

    raw = read_bounded_file(path, _MAX_BOOKS_BYTES)
    try:
        return parse_rows(parse_json(raw.decode(), max_depth=16))
    except (NotStrict, UnicodeDecodeError) as exc:
        raise ConfigurationError(
            f"{path} is no JSON of receipts",
            advice="name what `p2pmoe ledger receipts --json` printed",
        ) from exc


def _ask_rows(
    identity: "Identity", invite: Path | None, own: "list[Checked]"
) -> "list[LedgerRow]":
    """Ask for everything since shortly before the first own receipt."""
    from mobile_worker.clock import SystemClock
    from p2pmoe.receipts.comparison import parse_rows

    now_us = SystemClock().wall_us()
    first_us = min((one.receipt.answered_us for one in own), default=now_us)
    spans = _months(first_us - _DAY_US, now_us + _DAY_US)

    async def ask(ledger: "OwnLedger") -> list[object]:
        rows: list[object] = []
        for span in spans:
            rows += await ledger.receipts(span)
        return rows

    return parse_rows({"vouchers": _asking(identity, invite, ask)})


def _months(first_us: int, last_us: int) -> list[str]:
    """Return the months from one instant to another, as `2026-11`."""
    from ledger.periods import format_us

    year, month = map(int, format_us(max(first_us, 0))[:7].split("-"))
    end = format_us(last_us)[:7]
    months = [f"{year:04d}-{month:02d}"]
    while months[-1] < end:
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        months.append(f"{year:04d}-{month:02d}")
    return months


def _asking(
    identity: "Identity",
    invite: Path | None,
    ask: "Callable[[OwnLedger], Awaitable[T]]",
    tell: Callable[[str], None] = lambda _: None,
) -> T:
    """Log in at a relay of the invite and ask; the next one where one is away."""
    import os

    import trio

    from p2pmoe.cli.waiting import Waiting
    from p2pmoe.network.invite import find_invite
    from p2pmoe.receipts.asking import OwnLedger
    from relay.client import ClientSettings
    from relay.errors import RelayUnreachable

    member = find_invite(invite, os.environ)

    async def run() -> T:
        *others, last = member.relays
        for endpoint in (*others, last):
            settings = ClientSettings()
            ledger = OwnLedger(endpoint, member.network, identity, settings)
            try:
                await ledger.log_in()
            except RelayUnreachable:
                if endpoint is last:
                    raise
                continue
            tell(endpoint.address)
            return await ask(ledger)
        raise ConfigurationError("the invite names no relay")

    with Waiting("asking the ledger"):
        return trio.run(run)
