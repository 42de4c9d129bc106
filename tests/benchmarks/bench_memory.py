"""A model larger than the memory given: ours beside llama.cpp's mapped mode.

A MoE of 1.3 GB with random weights whose experts are used about as 1 / rank, in Q4_K,
is decoded in a memory cgroup of 0.6 of the file, swap refused. Each side starts with
nothing of the file in the system's cache, has the cgroup for itself, answers a few
requests before any is counted, then the same prompts with as many threads; rounds
alternate. Tokens are drawn at temperature 1, so that they, and with them the experts,
vary as in text; a model of random weights would else repeat itself.

- ours: `p2pmoe serve --ram`, experts in a bounded hot set and cache, the rest read;
- the same with `--disk mmap`, where a child process maps the file;
- llama.cpp: mapped, without its repacking (which would copy all weights).

Before anything counts: our tokens are those that the same server gives without a
limit. Swap must not grow. Needs a writable memory cgroup, 3 GB of disk and 3 GB of
memory, and from five to twenty minutes: llama.cpp reads a third of a GB a token.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from mobile_worker.arithmetic.formats.block_format import Format
from tests.benchmarks import llama_baseline
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.llama_baseline import Llama
from tests.benchmarks.synthetic_moe import SyntheticMoe, write_moe
from tests.support.cgroups import (
    MemoryGroup,
    MemoryUse,
    NoGroups,
    drop_cached,
    memory_group,
)

__all__ = ["notes", "run"]

MOE = SyntheticMoe(format=Format.Q4_K, n_layer=8, n_expert=64, skew=1.0)
LIMIT_SHARE = 0.6  # of the file
ROUNDS, WARM_UPS, ASKED = 3, 3, 2
N_PROMPT, N_TOKENS = 48, 16
N_THREADS = 2
TARGET, STRETCH = 1.0, 2.6
CONTEXT = 512
_ROOT = Path(__file__).resolve().parents[2]
_MB = 1e6
_PATIENCE_S = 300.0

Within = Callable[..., list[str]]


@dataclass(slots=True)
class Side:
    """What one side did: rates of requests, and what its cgroup held at most."""

    rates: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    use: list[MemoryUse] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request's prompt and seed."""

    prompt: list[int]
    seed: int


def requests(n: int) -> list[Asked]:
    """Return requests that differ, the same in each run."""
    return [
        Asked(
            prompt=[(100 + 37 * k + 811 * i) % 4000 + 50 for k in range(N_PROMPT)],
            seed=i,
        )
        for i in range(n)
    ]


class Served:
    """`p2pmoe serve` of one file; a context manager."""

    def __init__(self, path: Path, within: Within, *options: str) -> None:
        """Start it and wait until it is ready."""
        self._folder = tempfile.TemporaryDirectory()
        told = Path(self._folder.name) / "ready.json"
        words = ["serve", str(path), "--listen", "127.0.0.1:0"]
        words += ["--data", self._folder.name, "--ready-file", str(told)]
        words += ["--context", str(CONTEXT), "--threads", str(N_THREADS), *options]
        self._log = (Path(self._folder.name) / "log").open("w+")
        self._child = subprocess.Popen(
            within(sys.executable, "-m", "p2pmoe", *words), cwd=_ROOT, stderr=self._log
        )
        self._until(told.exists)
        host, port = json.loads(told.read_text())["listen"]
        self.url = f"http://{host}:{port}"
        self._client = httpx.Client(
            base_url=self.url, trust_env=False, timeout=_PATIENCE_S
        )
        self._until(self._is_ready)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._child.terminate()
        self._child.wait()
        self._log.close()
        self._folder.cleanup()

    def ask(self, asked: Asked, n_tokens: int = N_TOKENS) -> dict[str, Any]:
        """Return the answer's body."""
        body = {
            "prompt": asked.prompt,
            "max_tokens": n_tokens,
            "temperature": 1,
            "seed": asked.seed,
        }
        answer = self._client.post("/v1/completions", json=body)
        if answer.status_code != 200:
            raise RuntimeError(f"{answer.text}\n{self.log()}")
        found: dict[str, Any] = answer.json()
        return found

    def metrics(self) -> str:
        """Return the text of /metrics."""
        return self._client.get("/metrics").text

    def log(self) -> str:
        """Return what it has logged."""
        return Path(self._log.name).read_text()

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self._client.get("/readyz").status_code == 200
        return False

    def _until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not done():
            if self._child.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"serve does not become ready: {self.log()}")
            time.sleep(0.02)


def _alone(*words: str) -> list[str]:
    return list(words)


def our_tokens(path: Path) -> list[list[int]]:
    """Return our tokens of all requests without any limit."""
    with Served(path, _alone) as served:
        return [
            served.ask(one)["p2pmoe"]["tokens"] for one in requests(WARM_UPS + ASKED)
        ]


def serve_round(
    path: Path,
    group: MemoryGroup,
    side: Side,
    right: list[list[int]],
    options: list[str],
) -> None:
    """Ask ours; RuntimeError if a token differs from those without a limit."""
    start = time.monotonic()
    with Served(path, group.command, *options) as served:
        for number, one in enumerate(requests(WARM_UPS + ASKED)):
            answer = served.ask(one)
            if answer["p2pmoe"]["tokens"] != right[number]:
                raise RuntimeError(f"request {number} has other tokens in the cgroup")
            if not number:
                side.first_s.append(time.monotonic() - start)
            if number >= WARM_UPS:
                n = len(right[number]) - 1  # the prompt yields the first token
                side.rates.append(n / answer["timings"]["decode_s"])
        side.use.append(group.use())
        say(f"{json.dumps(answer['p2pmoe']['calls'])}")


def llama_round(path: Path, group: MemoryGroup, side: Side) -> None:
    """Ask llama.cpp."""
    start = time.monotonic()
    with Llama(path, mapped=True, n_threads=N_THREADS, within=group.command) as llama:
        for number, one in enumerate(requests(WARM_UPS + ASKED)):
            rate = llama.drawn_rate(one.prompt, N_TOKENS - 1, one.seed + 1)
            if not number:
                side.first_s.append(time.monotonic() - start)
            if number >= WARM_UPS:
                side.rates.append(rate)
        side.use.append(group.use())


def say(text: str) -> None:
    print(f"memory: {text}", file=sys.stderr, flush=True)


@contextmanager
def _fresh_group(path: Path, limit: int) -> Iterator[MemoryGroup]:
    drop_cached(path)
    with memory_group(limit) as group:
        yield group


def run() -> list[Figure]:
    """Measure all sides in turn, round by round; nothing where there is no cgroup."""
    try:
        with memory_group(1 << 30):
            pass
    except NoGroups as error:
        say(f"not measured: no memory cgroup of our own: {error}")
        return []
    say(f"writing {MOE.n_bytes / 1e9:.2f} GB")
    with tempfile.TemporaryDirectory() as folder:
        return _measure(write_moe(Path(folder) / "moe.gguf", MOE))


def _measure(path: Path) -> list[Figure]:
    limit = int(LIMIT_SHARE * path.stat().st_size)
    say(f"limit {limit / _MB:.0f} MB")
    sides = {"read": Side(), "mmap": Side(), "llama": Side()}
    right = our_tokens(path)
    for number in range(ROUNDS):
        for name, options in _OURS.items():
            with _fresh_group(path, limit) as group:
                serve_round(path, group, sides[name], right, options(limit))
            say(f"round {number + 1}, {name}: {_told(sides[name])}")
        if llama_baseline.is_installed():
            with _fresh_group(path, limit) as group:
                llama_round(path, group, sides["llama"])
            say(f"round {number + 1}, llama.cpp: {_told(sides['llama'])}")
    return _figures(sides, limit)


# What is read passes the system's cache by, so that --ram may be nearly all there is.
_OURS: dict[str, Callable[[int], list[str]]] = {
    "read": lambda limit: ["--ram", f"{int(0.85 * limit) >> 20}M"],
    "mmap": lambda limit: ["--ram", f"{int(0.75 * limit) >> 20}M", "--disk", "mmap"],
}


def _told(side: Side) -> str:
    last, use = side.rates[-ASKED:], side.use[-1]
    return (
        f"{statistics.median(last):.1f} tokens/s, "
        f"first answer {side.first_s[-1]:.1f} s, "
        f"{use.peak / _MB:.0f} MB at most, {use.anonymous / _MB:.0f} anonymous, "
        f"{use.swapped} swapped, limit met {use.failures} times"
    )


def _figures(sides: dict[str, Side], limit: int) -> list[Figure]:
    theirs = sides["llama"].rates
    beside = statistics.median(theirs) if theirs else None
    found = []
    for name, target in (("read", TARGET), ("mmap", None)):
        side = sides[name]
        if not side.rates:
            continue
        at_least = target * beside if target and beside else None
        found.append(
            figure(
                f"decode, file 1.67 x memory, {name}",
                "tokens/s",
                side.rates,
                baseline=theirs,
                at_least=at_least,
            )
        )
        found += _memory_figures(name, side.use, sides["llama"].use, limit)
    return found


def _memory_figures(
    name: str, ours: Sequence[MemoryUse], theirs: Sequence[MemoryUse], limit: int
) -> list[Figure]:
    return [
        figure(
            f"cgroup's memory at most, {name}",
            "MB",
            [one.peak / _MB for one in ours],
            baseline=[one.peak / _MB for one in theirs],
            at_most=limit / _MB,
        ),
        figure(
            f"anonymous memory, {name}",
            "MB",
            [one.anonymous / _MB for one in ours],
            baseline=[one.anonymous / _MB for one in theirs],
        ),
        figure(
            f"swapped, {name}", "MB", [one.swapped / _MB for one in ours], at_most=0.0
        ),
    ]


def notes() -> list[str]:
    """Say what stood beside."""
    if not llama_baseline.is_installed():
        return [llama_baseline.HOW_TO_INSTALL]
    return [f"stretch: {STRETCH} times llama.cpp's mapped mode, {N_THREADS} threads"]
