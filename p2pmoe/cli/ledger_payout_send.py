"""`p2pmoe ledger payout send`: prepared payouts leave the house.

Without --commit it says what would be sent. Exit code 3 where it is not known whether
something was paid: it stays unresolved, and is never sent again; else 1 where one
failed.
"""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2pmoe.cli.authority import CaFile, use_authorities
from p2pmoe.cli.ledger_folder import AsJson, Data, PeriodText, open_reader
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from p2pmoe.payouts.adapter import Adapter, Order
    from p2pmoe.payouts.sending import Sending

__all__ = ["Commit", "PayeesFile", "send"]

_COLUMNS = ("id", "worker", "destination", "money", "currency", "state", "detail")


PayeesFile = Annotated[
    Path,
    typer.Option("--payees", metavar="FILE", help="Who is paid: CSV or TOML."),
]
Commit = Annotated[bool, typer.Option("--commit", help="Do it; else only say it.")]


def send(
    payees: PayeesFile,
    adapter: Annotated[
        str,
        typer.Option(metavar="NAME", help="Send those prepared for it: bank, http."),
    ] = "bank",
    period: PeriodText = None,
    output: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="bank: where the payment files go."),
    ] = Path(),
    debtor_name: Annotated[
        str, typer.Option(metavar="TEXT", help="bank: the paying account's owner.")
    ] = "",
    debtor_iban: Annotated[
        str, typer.Option(metavar="IBAN", help="bank: the paying account.")
    ] = "",
    debtor_bic: Annotated[
        str, typer.Option(metavar="BIC", help="bank: its bank, where it is asked for.")
    ] = "",
    execute_on: Annotated[
        str | None,
        typer.Option("--on", metavar="DATE", help="bank: the day to pay; else today."),
    ] = None,
    url: Annotated[
        str, typer.Option(metavar="URL", help="http: where each payment is posted.")
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="http: the token, in a file of mode 600."),
    ] = None,
    ca: CaFile = None,
    commit: Commit = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Send prepared payouts: a payment file for the bank, or one HTTP request each."""
    from p2pmoe.payouts.payees import read_payees
    from p2pmoe.payouts.sending import orders_of, sending_right

    known = read_payees(payees)
    with contextlib.ExitStack() as stack:
        if adapter == "bank":
            account = (debtor_name, debtor_iban, debtor_bic)
            way: Adapter = _bank(account, output, execute_on)
        elif adapter == "http":
            way = _http(stack, url, token_file, use_authorities(ca))
        else:
            raise ConfigurationError(f"adapter {adapter!r} is neither bank nor http")
        reader = open_reader(data)
        if commit:
            stack.enter_context(sending_right(reader.folder.path))
        orders, skipped = orders_of(_prepared(data, adapter, period), known, way)
        if not commit:
            _say(orders, skipped, as_json=as_json)
            return
        _send(data, way, orders, skipped, as_json=as_json)


def _send(
    data: Path | None,
    way: "Adapter",
    orders: "Sequence[Order]",
    skipped: "list[dict[str, Any]]",
    *,
    as_json: bool,
) -> None:
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.cli.ledger_operate import operating
    from p2pmoe.payouts.adapter import OutcomeKind
    from p2pmoe.payouts.sending import send_orders

    n_done = 0
    with operating(data) as ask, LateBar() as bar:

        def progress(n_more: int) -> None:
            nonlocal n_done
            n_done += n_more
            bar.tell("sending payouts", n_done / len(orders))

        found = send_orders(ask, way, orders, progress)
    _report(found, skipped, getattr(way, "written", []), as_json=as_json)
    if found.is_open:
        raise typer.Exit(3)
    if found.count(OutcomeKind.FAILED):
        raise typer.Exit(1)


def _prepared(
    data: Path | None, adapter: str, period: str | None
) -> "list[Mapping[str, Any]]":
    from ledger.payout_list import payouts
    from ledger.periods_closing import closed_period

    with open_reader(data).session() as connection:
        period_id = closed_period(connection, period).id if period else None
        rows = payouts(connection, state="prepared", period_id=period_id)
    return [row for row in rows if row["adapter"] == adapter]


def _bank(
    account: tuple[str, str, str], output: Path, execute_on: str | None
) -> "Adapter":
    from ledger.periods import parse_period
    from mobile_worker.clock import SystemClock
    from p2pmoe.payouts.bank import BankFiles
    from p2pmoe.payouts.iban import check_bic, check_iban
    from p2pmoe.payouts.pain001 import Debtor

    name, iban, bic = account
    if not name.strip() or not iban:
        raise ConfigurationError("the bank needs --debtor-name and --debtor-iban")
    if not output.is_dir() or not os.access(output, os.W_OK):
        raise ConfigurationError(f"no folder that can be written: {output}")
    if execute_on is not None:
        parse_period(execute_on)
        if len(execute_on) != len("2026-12-01"):
            raise ConfigurationError(f"--on {execute_on!r} is no day")
    debtor = Debtor(name=name, iban=check_iban(iban), bic=check_bic(bic) if bic else "")
    clock = SystemClock()
    return BankFiles(debtor, output, wall_us=clock.wall_us, execute_on=execute_on)


def _http(
    stack: contextlib.ExitStack,
    url: str,
    token_file: Path | None,
    ca_file: Path | None,
) -> "Adapter":
    from p2pmoe.payouts.http import HttpCallback, read_token

    if not url:
        raise ConfigurationError("http needs --url")
    token = read_token(token_file) if token_file else ""
    return stack.enter_context(HttpCallback(url, token, ca_file))


def _say(
    orders: "Sequence[Order]", skipped: "list[dict[str, Any]]", *, as_json: bool
) -> None:
    rows = [_row(order, "prepared", "would be sent") for order in orders]
    rows += [_left_out(one) for one in skipped]
    _print(rows, {"committed": False}, as_json=as_json)
    if not orders:
        typer.echo("nothing to send", err=True)
    else:
        typer.echo("nothing was sent: add --commit", err=True)


def _report(
    found: "Sending",
    skipped: "list[dict[str, Any]]",
    written: "list[Path]",
    *,
    as_json: bool,
) -> None:
    from p2pmoe.payouts.adapter import OutcomeKind

    rows = [
        _row(order, outcome.kind.value, outcome.detail)
        for order, outcome in found.outcomes
    ]
    rows += [_left_out(one) for one in skipped]
    files = [str(path) for path in written]
    extra = {"committed": True, "files": files, "unresolved_before": found.recovered}
    _print(rows, extra | {"left": found.left}, as_json=as_json)
    for path in files:
        typer.echo(f"wrote {path}", err=True)
    for payout_id in found.recovered:
        typer.echo(f"payout {payout_id} of an earlier run is unresolved", err=True)
    if n_failed := found.count(OutcomeKind.FAILED):
        typer.echo(f"{n_failed} payouts failed: prepare them once more", err=True)
    if found.left:
        typer.echo(f"{found.left} payouts were not sent and stay prepared", err=True)
    if not found.outcomes:
        typer.echo("nothing to send", err=True)


def _print(
    rows: "list[dict[str, object]]", extra: "dict[str, object]", *, as_json: bool
) -> None:
    from p2pmoe.cli.tables import print_json, print_rows

    if as_json:
        print_json({"payouts": rows, **extra})
    else:
        print_rows(_COLUMNS, rows, "Payouts")


def _row(order: "Order", state: str, detail: str) -> dict[str, object]:
    from ledger.rates import format_money

    return {
        "id": order.id,
        "worker": order.payee.worker.hex(),
        "destination": order.payee.name,
        "money": format_money(order.amount_minor, order.currency),
        "currency": order.currency,
        "state": state,
        "detail": detail,
    }


def _left_out(one: "Mapping[str, Any]") -> dict[str, object]:
    values = {name: one[name] for name in _COLUMNS if name != "detail"}
    return values | {"detail": f"left out: {one['reason']}"}
