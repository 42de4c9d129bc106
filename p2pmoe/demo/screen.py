"""The demo on a terminal: a bar at the start, the text as it comes, tables at the end.

Everything for people goes to the stream given; piped, there is no bar, no colour and
no line break that the text has not. On a terminal a word does not go over the edge.
"""

from typing import IO, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ledger.amounts import format_credits
from p2pmoe.demo.facts import DemoFacts
from p2pmoe.demo.story import Screen

__all__ = ["TerminalScreen", "print_facts"]

_MIB = 1 << 20


class TerminalScreen:
    """Shows the demo's progress; `as_screen` is what the story calls."""

    def __init__(self, stream: IO[str]) -> None:
        self._console = Console(file=stream, highlight=False)
        self._bar = Progress(
            TextColumn("{task.description:<32}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=1.0)
        self._writing = False
        self._column = 0  # of the text, on a terminal
        self._after_space = True
        self._label = ""

    def as_screen(self) -> Screen:
        """Return the three calls that the story makes."""
        return Screen(step=self.step, piece=self.piece, note=self.note)

    def step(self, label: str, done: float) -> None:
        """Show how far a phase has come; `done` from 0 to 1."""
        self._end_text()
        if not self._console.is_terminal:
            if label != self._label:
                self._console.print(label, markup=False)
            self._label = label
            return
        self._bar.start()
        self._bar.update(self._task, description=label, completed=done)
        if done >= 1.0:
            self._bar.stop()

    def piece(self, text: str) -> None:
        """Show a piece of the text."""
        self._bar.stop()
        self._writing = True
        self._write(text)

    def note(self, line: str) -> None:
        """Show a remark in the middle of the text."""
        self._write(f" [{line}]", style="bold red")
        self._write(" ")

    def close(self) -> None:
        """Put the terminal back in order."""
        self._bar.stop()
        self._end_text()

    def _write(self, text: str, *, style: str | None = None) -> None:
        if not self._console.is_terminal:
            self._console.print(text, end="", markup=False, soft_wrap=True)
            return
        room = self._console.width - 1 - self._column
        if len(text.partition("\n")[0].rstrip()) > room and (
            self._after_space or text.startswith(" ")
        ):
            text = f"\n{text.removeprefix(' ')}"
        self._console.print(text, end="", markup=False, soft_wrap=True, style=style)
        _, line_break, last = text.rpartition("\n")
        self._column = len(last) if line_break else self._column + len(last)
        self._after_space = text.endswith((" ", "\n"))

    def _end_text(self) -> None:
        if self._writing:
            self._console.print("\n")
            self._writing = False
            self._column = 0


def print_facts(facts: DemoFacts, stream: IO[str]) -> None:
    """Print the figures, the statement per worker and what was verified."""
    console = Console(file=stream, highlight=False)
    console.print(_figures(facts))
    console.print(_statement(facts))
    for claim, holds in _claims(facts):
        style = ("green" if holds else "bold red") if console.is_terminal else None
        console.print(f"{'yes' if holds else 'NO ':<4}{claim}", style=style)


def _figures(facts: DemoFacts) -> Table:
    table = Table(title="How it was served", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    calls = ", ".join(f"{tier} {n}" for tier, n in facts.calls.items())
    rows: list[tuple[str, Any]] = [
        ("tokens per second", f"{facts.tokens_per_s:.1f}"),
        ("round trips per token", f"{facts.round_trips_per_token:.2f}"),
        ("expert calls by tier", calls),
        ("share on hub and edge", f"{facts.remote_share:.0%}"),
        ("bytes to workers, back", f"{facts.bytes_up:,}, {facts.bytes_down:,}"),
        ("calls dispatched again", facts.failovers),
        ("worker killed", facts.killed_worker),
        ("computed with", facts.kernel),
        ("whole demo", f"{facts.seconds:.0f} s"),
    ]
    for name, value in rows:
        table.add_row(name, str(value))
    return table


def _statement(facts: DemoFacts) -> Table:
    table = Table(title="Statement", title_justify="left")
    table.add_column("worker")
    table.add_column("peer id")
    table.add_column("credits", justify="right")
    table.add_column("memory MiB", justify="right")
    idle = [peer for peer in facts.names if peer not in facts.payouts]
    for peer in [*facts.payouts, *idle]:
        name, amount_uc = facts.names.get(peer, "?"), facts.payouts.get(peer, 0)
        memory = facts.worker_memory.get(name, 0) / _MIB
        table.add_row(name, peer[:8], format_credits(amount_uc), f"{memory:.0f}")
    return table


def _claims(facts: DemoFacts) -> list[tuple[str, bool]]:
    return [
        ("the same tokens as a single process", facts.identical),
        (
            f"{facts.servings_accepted} servings accepted = "
            f"{facts.receipts_count} receipts + "
            f"{facts.servings_unsigned_at_kill} unsigned at the kill",
            facts.adds_up,
        ),
        (
            f"{facts.receipts_verified} of {facts.receipts_count} receipts verified",
            facts.receipts_verified == facts.receipts_count,
        ),
        ("the ledger re-derives every balance", facts.ledger_verified),
    ]
