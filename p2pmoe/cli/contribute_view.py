"""What `p2pmoe contribute` shows: five live lines on a terminal, else lines, or JSON.

All three say what `p2pmoe status` and the local page say (`p2pmoe.contributor.report`).
On a terminal the five lines are redrawn in place; piped, a line is written when the
state changes and once a minute; `--json` writes one object for each such moment to
stdout. A line that cannot be written (a full disk, nobody reads) is left out: the
worker works.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ledger.amounts import format_credits
from mobile_worker.clock import SystemClock
from mobile_worker.contribute.states import Facts, State, Status
from p2pmoe.contributor.report import how_to_override, report_of

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["View", "facts_line", "open_view"]

View = Callable[[Status, Facts], None]

_LINE_S = 60.0


@contextmanager
def open_view(*, as_json: bool) -> Iterator[View]:
    """Yield what is to be called with each report."""
    if as_json:
        yield _occasional(_print_json)
    elif sys.stderr.isatty():
        with _live() as view:
            yield view
    else:
        yield _occasional(_print_line)


def facts_line(facts: Facts) -> str:
    """Return the figures in one line."""
    parts = [
        f"{facts.served} served",
        f"{facts.served_last_minute} in the last minute",
        f"{format_credits(facts.signed_uc)} credits earned",
    ]
    if facts.waiting_to_file:
        parts.append(f"{_vouchers(facts.waiting_to_file)} on the way to the ledger")
    if facts.rejected:
        parts.append(f"{_vouchers(facts.rejected)} rejected by it")
    if facts.refused:
        parts.append(f"{facts.refused} dispatches refused")
    return ", ".join(parts)


def _vouchers(n: int) -> str:
    return f"{n} voucher" if n == 1 else f"{n} vouchers"


def _occasional(show: View) -> View:
    """Call `show` when the state changes and once a minute."""
    last: list[tuple[str, float, int]] = []
    n_reports = 0

    def view(status: Status, facts: Facts) -> None:
        nonlocal n_reports
        n_reports += 1
        state = (str(status.state), status.since)
        due = not last or last[-1][:2] != state or n_reports - last[-1][2] >= _LINE_S
        if due:
            last[:] = [(*state, n_reports)]
            show(status, facts)

    return view


def _print_line(status: Status, facts: Facts) -> None:
    figures = f" ({facts_line(facts)})" if facts.served else ""
    how = f"; {how_to_override(status)}" if status.override else ""
    with suppress(OSError):
        print(f"{status.line}{how}{figures}", file=sys.stderr, flush=True)


def _print_json(status: Status, facts: Facts) -> None:
    report = report_of(status, facts, SystemClock().monotonic())
    with suppress(OSError):
        print(json.dumps(dict(report.fields)), flush=True)


@contextmanager
def _live() -> Iterator[View]:
    from rich.console import Console
    from rich.live import Live

    last: list[tuple[Status, Facts]] = []
    with Live(console=Console(stderr=True), auto_refresh=False) as live:

        def view(status: Status, facts: Facts) -> None:
            last[:] = [(status, facts)]
            live.update(_table(status, facts), refresh=True)

        yield view
        for status, facts in last:
            live.update(_ended(status, facts), refresh=True)


def _table(status: Status, facts: Facts) -> "Table":
    report = report_of(status, facts, SystemClock().monotonic())
    rows = [(line.name, line.text) for line in report.lines]
    if status.state is State.DRAINING:
        rows.append(("stop", "Ctrl-C again ends at once"))
    else:
        rows.append(("stop", "Ctrl-C finishes running work and has it signed"))
        rows.append(("more", "p2pmoe status --page, pause, limits, earnings"))
    return _grid(rows)


def _ended(status: Status, facts: Facts) -> "Table":
    report = report_of(status, facts, SystemClock().monotonic())
    lines = {line.name: line.text for line in report.lines}
    kept = f"{facts.waiting_to_file} vouchers are kept and filed at the next start"
    state = f"ended; {kept}" if facts.waiting_to_file else "ended"
    return _grid(
        [("state", state), ("served", lines["served"]), ("earned", lines["earned"])]
    )


def _grid(rows: list[tuple[str, str]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, text in rows:
        table.add_row(name, Text(text))  # rich reads brackets in a str as its own
    return table
