"""`p2pmoe earnings`: what the worker on this machine earned, day by day.

From its own copy of what it filed, so that it works without a network and without the
operator; each voucher has the backbone's signature. What of it is held back and paid is
the ledger's to say: `p2pmoe receipts statement`. With a running worker, what is not
filed yet is told too.
"""

from pathlib import Path
from typing import Annotated

import typer

from p2pmoe.cli.asking_worker import AsJson, Data, ask, folder_of

__all__ = ["register"]

Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="From then on: 7d, 12h, or 2026-11-01 (UTC)."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("earnings")(_earnings)


def _earnings(since: Since = None, data: Data = None, as_json: AsJson = False) -> None:
    """Print what this worker earned by day, what was rejected and what is pending."""
    from ledger.amounts import format_credits
    from p2pmoe.cli.tables import print_json, print_rows, print_values
    from p2pmoe.contributor.earnings import earnings_document, earnings_in

    since_us = _since_us(since)
    earned = earnings_in(folder_of(data) / "receipts", since_us)
    pending = _pending(data)
    if as_json:
        print_json(earnings_document(earned) | {"pending": pending})
        return
    columns = ("day", "servings", "amount")
    rows = [
        {
            "day": name,
            "servings": day.servings,
            "amount": format_credits(day.amount_uc),
        }
        for name, day in earned.days.items()
    ]
    print_rows(columns, rows, "Filed with the ledger, by day (UTC)")
    values: dict[str, object] = {"filed": format_credits(earned.filed_uc)}
    values |= {f"rejected: {why}": n for why, n in earned.rejected.items()}
    if earned.rejected_uc:
        values["rejected, not covered"] = format_credits(earned.rejected_uc)
    print_values(values | pending)


def _since_us(since: str | None) -> int:
    from ledger.errors import PeriodRefused
    from ledger.periods import parse_period
    from mobile_worker.clock import SystemClock
    from p2pmoe.contributor.durations import parse_duration
    from p2pmoe.errors import ConfigurationError

    if since is None:
        return 0
    try:
        return parse_period(since).start_us
    except PeriodRefused:
        pass
    try:
        return SystemClock().wall_us() - parse_duration(since) * 1_000_000
    except ConfigurationError as error:
        raise ConfigurationError(
            f"--since {since[:40]!r} is neither a day nor a time",
            advice="write it like 7d or 2026-11-01",
        ) from error


def _pending(data: Path | None) -> dict[str, object]:
    """Return what a running worker has not filed yet; nothing if none runs."""
    from p2pmoe.errors import P2pmoeError

    try:
        status = ask(data, "status")
    except P2pmoeError:
        return {}
    names = ("vouchers_to_file", "accepted", "signed")
    counts = [status.get(name) for name in names]
    to_file, accepted, signed = (n if isinstance(n, int) else 0 for n in counts)
    return {"vouchers to file": to_file, "calls not signed yet": accepted - signed}
