"""What `p2pmoe contribute` shows: a live table on a terminal, lines when piped, JSON.

All three say the same: the state with its reason, and the figures, all since the start
of this process. On a terminal the
table is redrawn in place; piped, a line is written when the state or its reason's state
changes and once a minute; `--json` writes one object for each such moment to stdout.
A line that cannot be written (a full disk, nobody reads) is left out: the worker works.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ledger.amounts import format_credits
from mobile_worker.contribute.states import Facts, State, Status

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
        parts.append(f"{facts.waiting_to_file} vouchers on their way to the ledger")
    if facts.rejected:
        parts.append(f"{facts.rejected} vouchers rejected by it")
    if facts.refused:
        parts.append(f"{facts.refused} dispatches refused")
    return ", ".join(parts)


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
    with suppress(OSError):
        print(f"{status.line}{figures}", file=sys.stderr, flush=True)


def _print_json(status: Status, facts: Facts) -> None:
    event = {
        "state": str(status.state),
        "reason": status.reason,
        "kernel": facts.kernel,
        "experts_held": facts.n_held,
        "experts_leased": facts.n_leased,
        "served": facts.served,
        "served_last_minute": facts.served_last_minute,
        "accepted": facts.accepted,
        "signed": facts.signed,
        "signed_uc": facts.signed_uc,
        "vouchers_to_file": facts.waiting_to_file,
        "vouchers_rejected": facts.rejected,
        "dispatches_refused": facts.refused,
        "major_faults_per_s": round(facts.major_faults_s, 1),
    }
    with suppress(OSError):
        print(json.dumps(event), flush=True)


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
            live.update(_table(status, facts, ended=True), refresh=True)


def _table(status: Status, facts: Facts, *, ended: bool = False) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    earned = [f"{format_credits(facts.signed_uc)} credits, signed by the backbones"]
    if facts.waiting_to_file:
        earned.append(f"{facts.waiting_to_file} vouchers on their way to the ledger")
    if facts.rejected:
        earned.append(f"{facts.rejected} vouchers rejected by it")
    served = (
        f"{facts.served} expert calls, {facts.served_last_minute} in the last minute"
    )
    if facts.refused:
        served += f"; {facts.refused} dispatches refused"
    rows = {"served": served, "earned": "; ".join(earned)}
    if ended:
        kept = f"{facts.waiting_to_file} vouchers are kept and filed at the next start"
        state = f"ended; {kept}" if facts.waiting_to_file else "ended"
        rows = {"state": state, "served": served, "earned": earned[0]}
    else:
        rows = {
            "state": status.line,
            "relay": "connected" if facts.relay_is_up else "not connected",
            "kernel": facts.kernel,
            "experts": f"{facts.n_held} of {facts.n_leased} in memory",
            **rows,
            "stop": "Ctrl-C again ends at once"
            if status.state is State.DRAINING
            else "Ctrl-C finishes running work and has the last voucher signed",
        }
    for name, text in rows.items():
        table.add_row(name, text)
    return table
