"""The relay's figures beside the stock websockets.trio server, in the same run.

The relay, the stock server and the load generator are processes of their own; rounds of
the two servers alternate. On a machine with two cores the generator takes one of them.
"""

import json
import subprocess
import sys
from contextlib import ExitStack

from tests.benchmarks.figures import Figure, figure

_MODULE = "tests.benchmarks.relay_processes"
_TARGETS = {
    "plain": {"rate": 6_600.0, "p50": 0.47, "p99": 0.9, "idle_kb": 15.0},
    "tls": {"rate": 3_650.0, "idle_kb": 54.0},
}


def _start(opened: ExitStack, role: str, mode: str) -> tuple[int, int]:
    process = subprocess.Popen(
        [sys.executable, "-m", _MODULE, role, mode], stdout=subprocess.PIPE, text=True
    )
    opened.enter_context(process)
    opened.callback(process.terminate)
    return int(process.stdout.readline()), process.pid


def _measure(mode: str) -> dict[str, list[float]]:
    with ExitStack() as opened:
        ours_port, ours_pid = _start(opened, "ours", mode)
        stock_port, stock_pid = _start(opened, "stock", mode)
        numbers = map(str, (ours_port, ours_pid, stock_port, stock_pid))
        done = subprocess.run(
            [sys.executable, "-m", _MODULE, "load", mode, *numbers],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )
        return json.loads(done.stdout)


def run() -> list[Figure]:
    """Measure plain and TLS; some 40 seconds."""
    figures = []
    for mode, targets in _TARGETS.items():
        results = _measure(mode)
        for short, name, unit in (
            ("rate", "8 KiB messages", "1/s"),
            ("p50", "A-relay-B-relay-A p50", "ms"),
            ("p99", "A-relay-B-relay-A p99", "ms"),
            ("idle_kb", "memory of an idle connection", "KB"),
        ):
            goal = targets.get(short)
            figures.append(
                figure(
                    f"{name}, {mode}",
                    unit,
                    results[f"{short} ours"],
                    baseline=results[f"{short} stock"],
                    at_least=goal if short == "rate" else None,
                    at_most=goal if short != "rate" else None,
                )
            )
    return figures
