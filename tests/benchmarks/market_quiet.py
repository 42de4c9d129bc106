"""What a contributor feels of a worker: idle, and beside another program.

- A worker that has joined and has nothing to do: percent of a processor, and resident
  memory (of which files that are mapped give way when memory is needed).
- Another program on every processor, alone and beside a worker that computes on one
  thread without a pause: percent of its own speed, under `quiet`, with `max` as the
  baseline. After 10 s of this the governor would pause the worker and leave all of it.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import trio

from p2pmoe.local_network.processes import Stage
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.load_child import resident_bytes
from tests.benchmarks.network_processes import start_relay

__all__ = ["run"]

_ROUNDS = 5
_IDLE_S = 10.0
_OTHER_S = 2.0
_READY_S = 60.0
_AT_MOST_CPU, _AT_MOST_MB, _AT_LEAST_SPEED = 1.0, 80.0, 95.0
_ROOT = Path(__file__).resolve().parents[2]
_CHILD = (sys.executable, "-m", "tests.benchmarks.quiet_child")


def run() -> list[Figure]:
    """Measure; about a minute and a half."""
    return [*trio.run(_idle), _beside()]


async def _idle() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        try:
            invite = await start_relay(stage)
            worker = await stage.start(
                "worker",
                [
                    *("contribute", "--invite", str(invite), "--yes"),
                    *("--memory", "64M", "--data", f"{folder}/worker"),
                ],
            )
            await worker.ready(_READY_S)
            await trio.sleep(5.0)  # until it has offered and was answered
            percents, megabytes = [], []
            for _ in range(_ROUNDS):
                before, start = _cpu_s(worker.pid), time.monotonic()
                await trio.sleep(_IDLE_S)
                took = time.monotonic() - start
                percents.append(100 * (_cpu_s(worker.pid) - before) / took)
                megabytes.append(resident_bytes(worker.pid) / 1e6)
        finally:
            await stage.stop_all()
    name = "a worker without work, of a processor"
    return [
        figure(name, "%", percents, at_most=_AT_MOST_CPU),
        figure("the same, resident", "MB", megabytes, at_most=_AT_MOST_MB),
    ]


def _beside() -> Figure:
    quiet, loud = [], []
    with _others() as others, _child("worker", "quiet") as gentle:
        with _child("worker", "max") as greedy:
            for worker in (gentle, greedy):
                worker.send_signal(signal.SIGSTOP)
            for _ in range(_ROUNDS):
                alone = _work_of(others)
                quiet.append(100 * _speed(others, alone, gentle))
                loud.append(100 * _speed(others, alone, greedy))
    name = "another program beside a computing worker, quiet beside max"
    return figure(name, "%", quiet, baseline=loud, at_least=_AT_LEAST_SPEED)


def _speed(
    others: list["subprocess.Popen[str]"],
    alone: tuple[int, float],
    worker: "subprocess.Popen[str]",
) -> float:
    """Return the others' speed beside a worker, of their own."""
    before = _cpu_s(worker.pid)
    worker.send_signal(signal.SIGCONT)
    n, cpu_s = _work_of(others)
    worker.send_signal(signal.SIGSTOP)
    taken_s = _cpu_s(worker.pid) - before
    return cpu_s / (cpu_s + taken_s) * (n / cpu_s) / (alone[0] / alone[1])


def _work_of(others: list["subprocess.Popen[str]"]) -> tuple[int, float]:
    """Return what all others do in a while, and in how many processor seconds."""
    for other in others:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    told = [_line(other).split() for other in others]
    return sum(int(n) for n, _ in told), sum(float(s) for _, s in told)


@contextmanager
def _others() -> Iterator[list["subprocess.Popen[str]"]]:
    """Another program on every processor."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(_child("other", str(_OTHER_S)))
            for _ in os.sched_getaffinity(0)
        ]


@contextmanager
def _child(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """A process of the benchmark that is ready; it is killed at the end."""
    child = subprocess.Popen(
        [*_CHILD, *words],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        _line(child)
        yield child
    finally:
        child.kill()
        child.communicate()


def _line(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
    user, system = (int(ticks) for ticks in fields.split()[11:13])
    return (user + system) / os.sysconf("SC_CLK_TCK")
