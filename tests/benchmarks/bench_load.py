"""From a model file of 1.3 GB to readiness and to the first token: seconds and memory.

- `p2pmoe serve`, from its start until `/readyz` says ready, by the clock and in seconds
  of the processor (which other work on the machine does not lengthen as much), with
  what is resident then and some seconds later, when the file has been looked through;
  and its first answer.
- Loading alone, imports apart, in a process of its own, and its first token, beside
  llama.cpp's (through `xllamacpp`, with its defaults).
- Reading the file once, plainly: what a load that reads everything takes at least.

The file lies in the system's cache: it has just been written. Needs 1.4 GB of disk and
3 GB of memory, and about a minute.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from mobile_worker.arithmetic.formats.block_format import Format
from tests.benchmarks import llama_baseline
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.load_child import resident_bytes
from tests.benchmarks.synthetic_moe import SyntheticMoe, write_moe

ROUNDS = 5
READY_S, RESIDENT_MB = 1.0, 100.0
SETTLED_S = 3.0
_ROOT = Path(__file__).resolve().parents[2]
_MB = 1e6
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """One start of `serve`: seconds, and resident megabytes."""

    ready_s: float
    ready_cpu_s: float
    ready_mb: float
    settled_mb: float
    first_s: float
    first_mb: float


def serve_once(path: Path) -> Served:
    """Start `p2pmoe serve`, ask it once, and end it."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "ready.json"
        words = ["serve", str(path), "--listen", "127.0.0.1:0", "--data", folder]
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "p2pmoe", *words, "--ready-file", str(told)],
            cwd=_ROOT,
            stderr=subprocess.DEVNULL,
        )
        try:
            _until(told.exists)
            host, port = json.loads(told.read_text())["listen"]
            url = f"http://{host}:{port}"
            _until(lambda: _answers(f"{url}/readyz"))
            ready_s, ready = time.perf_counter() - start, resident_bytes(child.pid)
            cpu_s = _cpu_seconds(child.pid)
            time.sleep(SETTLED_S)
            settled = resident_bytes(child.pid)
            asked = time.perf_counter()
            _complete(url)
            first_s, first = time.perf_counter() - asked, resident_bytes(child.pid)
        finally:
            child.terminate()
            child.wait()
    return Served(ready_s, cpu_s, ready / _MB, settled / _MB, first_s, first / _MB)


def load_once(who: str, path: Path) -> dict[str, float]:
    """Load in a process of its own; see `load_child`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.load_child", who, str(path)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def read_once(path: Path) -> float:
    """Return the seconds of reading the file from front to end."""
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        place = bytearray(1 << 20)
        while file.readinto(place):
            pass
    return time.perf_counter() - start


def run() -> list[Figure]:
    """Measure all in turn, round by round."""
    served, ours, theirs, plain = [], [], [], []
    with _written() as path:
        for number in range(ROUNDS):
            print(f"load: round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
            plain.append(read_once(path))
            served.append(serve_once(path))
            ours.append(load_once("ours", path))
            if llama_baseline.is_installed():
                theirs.append(load_once("llama", path))
        return [*_serve_figures(served, plain), *_load_figures(ours, theirs)]


def _serve_figures(served: list[Served], plain: list[float]) -> list[Figure]:
    ready = [one.ready_s for one in served]
    resident = [one.ready_mb for one in served]
    name = "serve, start to ready, beside reading the file"
    return [
        figure(name, "s", ready, baseline=plain, at_most=READY_S),
        figure(
            "serve, start to ready, of the processor",
            "s",
            [one.ready_cpu_s for one in served],
        ),
        figure("serve, resident when ready", "MB", resident, at_most=RESIDENT_MB),
        figure(
            "serve, resident when looked through",
            "MB",
            [one.settled_mb for one in served],
            at_most=RESIDENT_MB,
        ),
        figure("serve, first answer of 1 token", "s", [one.first_s for one in served]),
        figure("serve, resident after it", "MB", [one.first_mb for one in served]),
    ]


def _load_figures(
    ours: list[dict[str, float]], theirs: list[dict[str, float]]
) -> list[Figure]:
    def beside(name: str, unit: str, of: Callable[[dict[str, float]], float]) -> Figure:
        return figure(name, unit, [*map(of, ours)], baseline=[*map(of, theirs)])

    def grown(key: str) -> Callable[[dict[str, float]], float]:
        return lambda one: (one[key] - one["before"]) / _MB

    return [
        beside("load alone", "s", lambda one: one["load_s"]),
        beside("load alone, memory it takes", "MB", grown("loaded")),
        beside("load to first token", "s", lambda one: one["load_s"] + one["first_s"]),
        beside("load to first token, memory it takes", "MB", grown("first")),
    ]


@contextmanager
def _written() -> Iterator[Path]:
    moe = SyntheticMoe(format=Format.Q4_0)
    with tempfile.TemporaryDirectory() as folder:
        yield write_moe(Path(folder) / "moe.gguf", moe)


def _until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not done():
        if time.monotonic() > end:
            raise RuntimeError("serve does not become ready")
        time.sleep(0.005)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
    user, system = (int(ticks) for ticks in fields.split()[11:13])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url, trust_env=False).status_code == 200
    return False


def _complete(url: str) -> None:
    body = {"prompt": "It was a dark night", "max_tokens": 1, "temperature": 0}
    answer = httpx.post(
        f"{url}/v1/completions", json=body, timeout=_PATIENCE_S, trust_env=False
    )
    answer.raise_for_status()
