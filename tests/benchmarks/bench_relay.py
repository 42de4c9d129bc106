"""The relay's figures beside the stock websockets.trio server, in the same run.

The relay, the stock server and the load generator are processes of their own; rounds of
the two servers alternate. On a machine with two cores the generator takes one of them.
Then the relay among many, without the stock server: it would not hold them.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

from tests.benchmarks.figures import Figure, figure

_PAIRS = "tests.benchmarks.relay_processes"
_CROWDS = "tests.benchmarks.relay_crowds"
_TARGETS = {
    "plain": {"rate": 9_900.0, "p50": 0.35, "p99": 0.9, "idle_kb": 15.0},
    "tls": {"rate": 5_475.0, "idle_kb": 54.0},
}
_N_IDLE = 5_000
_HOLD_S = {"plain": 25, "tls": 0}  # longer than a peer may be silent
_N_STORM = 1_000
_BASE_MB = 60.0  # of a relay with nobody: the bound


def _open(opened: ExitStack, module: str, *words: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    opened.enter_context(process)
    opened.callback(process.terminate)
    return process


def _start(opened: ExitStack, module: str, *words: object) -> tuple[int, int]:
    process = _open(opened, module, *words)
    return int(process.stdout.readline()), process.pid


def _run(module: str, *words: object, timeout_s: float = 120) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=timeout_s,
    )
    return json.loads(done.stdout)


def _measure(mode: str) -> dict[str, list[float]]:
    with ExitStack() as opened:
        ours = _start(opened, _PAIRS, "ours", mode)
        stock = _start(opened, _PAIRS, "stock", mode)
        return _run(_PAIRS, "load", mode, *ours, *stock)


def _pairs() -> list[Figure]:
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


def _idle(mode: str) -> list[Figure]:
    """Five thousand that do nothing but answer pings."""
    with ExitStack() as opened:
        port, pid = _start(opened, _CROWDS, "relay", mode, "free", 0)
        words = ("idle", mode, port, pid, _N_IDLE, _HOLD_S[mode])
        found = _run(_CROWDS, *words, timeout_s=300)
    most_mb = _BASE_MB + _N_IDLE * _TARGETS[mode]["idle_kb"] / 1024
    held = f"held of {_N_IDLE} idle connections, {mode}"
    size = f"relay's memory with {_N_IDLE} idle connections, {mode}"
    return [
        figure(held, "peers", [found["held"]], at_least=_N_IDLE),
        figure(size, "MB", [found["rss_mb"]], at_most=most_mb),
    ]


def _hot_receiver() -> list[Figure]:
    """Fifty senders to one reader that takes a quarter of what they offer."""
    with ExitStack() as opened:
        port, _ = _start(opened, _CROWDS, "relay", "plain", "free", 0)
        trips = _open(opened, _CROWDS, "trips", port)
        trips.stdout.readline()
        crowd = _open(opened, _CROWDS, "crowd", port)
        crowd.stdout.readline()
        found = json.loads(crowd.stdout.readline())
        trips.stdin.close()
        times = json.loads(trips.stdout.readline())["trips"]
    p99: dict[str, list[float]] = {"spread": [], "hot": []}
    for kind, began, ended in found["turns"]:
        within = [ms for at, ms in times if began <= at < ended]
        p99[kind].append(statistics.quantiles(within, n=100)[98])
    changes = [
        100 * (hot / spread - 1)
        for hot, spread in zip(p99["hot"], p99["spread"], strict=True)
    ]
    beside = "A-relay-B-relay-A p99 beside a hot receiver"
    return [
        figure("fairness of 50 senders to one", "Jain", found["jain"], at_least=0.95),
        figure(beside, "ms", p99["hot"], baseline=p99["spread"]),
        figure(f"{beside}, change", "%", changes, at_most=10.0),
    ]


def _storm() -> list[Figure]:
    """Kill the relay, start it again at once: a thousand come back by themselves."""
    with ExitStack() as opened:
        port, pid = _start(opened, _CROWDS, "relay", "plain", "free", 0)
        storm = _open(opened, _CROWDS, "storm", port, _N_STORM)
        storm.stdout.readline()
        os.kill(pid, signal.SIGKILL)
        restarted = time.monotonic()
        relay = _open(opened, _CROWDS, "relay", "plain", "gated", port)
        relay.stdout.readline()
        back_s = json.loads(storm.stdout.readline())["last"] - restarted
        relay.stdin.close()
        most = int(relay.stdout.readline())
    name = f"{_N_STORM} peers back after a restart"
    return [
        figure(name, "s", [back_s], at_most=60.0),
        figure(f"{name}, most in a second", "joins", [most], at_most=100.0),
    ]


def run() -> list[Figure]:
    """Measure pairs of peers, then crowds; some three minutes."""
    crowds = [*_idle("plain"), *_idle("tls"), *_hot_receiver(), *_storm()]
    return [*_pairs(), *crowds]
