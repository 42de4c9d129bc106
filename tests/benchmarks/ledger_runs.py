"""The ledger's two long runs: `python -m tests.benchmarks.ledger_runs million|...`.

    million [N]             N servings (a million) through real worker, backbone and
                            ledger processes, each killed twice with -9
    ten-million [N] [--postgres]
                            N servings' vouchers (of ten million) through settlement

Each ends with `p2pmoe ledger verify` of what it left, prints its figures, and exits
with 1 if anything was settled twice, not at all, or does not add up. Progress goes to
stderr. Both take some minutes and leave nothing behind.
"""

import contextlib
import dataclasses
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.ledger_network import Run, run_network
from tests.benchmarks.ledger_settled import Settled, settle
from tests.benchmarks.run import machine
from tests.support.postgres import running_server

__all__ = ["main"]

_USAGE = "usage: ledger_runs million [N] | ten-million [N] [--postgres]"
_SAY_EACH_S = 10.0


class _Progress:
    """Says what is going on, now and then."""

    def __init__(self) -> None:
        self._said = 0.0
        self._kind = ""

    def __call__(self, text: str) -> None:
        kind = text.lstrip("0123456789,")
        now = time.monotonic()
        if kind != self._kind or now - self._said > _SAY_EACH_S:
            self._said, self._kind = now, kind
            print(text, file=sys.stderr, flush=True)


def _settled(n: int, *, on_postgres: bool) -> Settled:
    with contextlib.ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="run-")
        path = Path(stack.enter_context(folder)) / "ledger"
        if on_postgres:
            stack.enter_context(running_server(on_disk=True)).prepare(path)
        found = settle(path, n, _Progress())
        _verify(path)
    return found


def _verify(ledger: Path) -> None:
    """Re-derive everything from the files; the run ends here if it differs."""
    print("verify", file=sys.stderr, flush=True)
    words = ["ledger", "verify", "--data", str(ledger)]
    subprocess.run([sys.executable, "-m", "p2pmoe", *words], check=True)


def _print(found: Run | Settled) -> None:
    for field in dataclasses.fields(found):
        value = getattr(found, field.name)
        shown = f"{value:,.0f}" if isinstance(value, float) else f"{value:,}"
        print(f"{field.name:20} {shown:>16}")


def main(arguments: Sequence[str]) -> int:
    """Run one of the two; return the exit code."""
    name, *rest = [*arguments, ""]
    numbers = [int(word) for word in rest if word.isdecimal()]
    if name not in {"million", "ten-million"}:
        print(_USAGE, file=sys.stderr)
        return 2
    print(machine(), flush=True)
    found: Run | Settled
    if name == "million":
        n = numbers[0] if numbers else 1_000_000
        found = run_network(n, _Progress(), _verify)
    else:
        n = numbers[0] if numbers else 10_000_000
        found = _settled(n, on_postgres="--postgres" in rest)
    _print(found)
    for difference in found.differences:
        print(difference)
    return 1 if found.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
