"""The C kernels outside Python: `kernel_driver.c`, built in several ways and run.

A case is an operation of the driver, its sizes and its buffers; the driver answers with
the bytes. Builds name what they need, and are skipped where it is missing; with
P2PMOE_REQUIRE_SHARED=1 such a skip is a failure. Product units of the two big sets take
a compiler 5 to 10 seconds each, so two compile at a time.
"""

import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path

import pytest

__all__ = [
    "BUILDS",
    "Answer",
    "Build",
    "Case",
    "Driver",
    "Mode",
    "Operation",
    "Place",
    "build_driver",
    "float_bits",
    "need_tool",
    "stream_of",
]

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = _ROOT / "mobile_worker" / "arithmetic" / "c"
_FLAGS = (
    "-std=c11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-psabi",
    f"-I{_SOURCES}",
)
_ZIG = (sys.executable, "-m", "ziglang", "cc")
_RUN_SECONDS = 900


class Operation(IntEnum):
    """What the driver does; the numbers of `kernel_driver.h`."""

    PRODUCT = 0
    EXPERT = 1
    CODE_I8 = 2
    CODE_I16 = 3
    ROUND = 4
    ACTIVATE = 5
    RMS_NORM = 6
    TURN = 7
    DOT_SCORES = 8
    ATTEND = 9
    LANE_PRODUCT = 10
    CHOOSE = 11
    WEIGHTED_SUM = 12


class Mode(IntEnum):
    """The float mode that a process has set before it calls."""

    PLAIN = 0
    FLUSH_TO_ZERO = 1
    DOWN = 2
    UP = 3
    TOWARDS_ZERO = 4


@dataclass(frozen=True)
class Place:
    """The bytes of a buffer, and how far into its allocation it begins."""

    held: bytes | None = field(repr=False)
    shift: int = 0


@dataclass(frozen=True)
class Case:
    """One call of a kernel."""

    operation: Operation
    numbers: tuple[int, ...]
    places: tuple[Place, ...]
    mode: Mode = Mode.PLAIN
    result_shift: int = 0


@dataclass(frozen=True)
class Answer:
    """What came of it: 0 done, 1 not finite, 2 an impossible code or scale."""

    outcome: int
    mode_kept: bool
    result: bytes


@dataclass(frozen=True)
class Build:
    """A way to compile the driver, and what runs it."""

    name: str
    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()

    def need(self) -> None:
        """Skip the calling test where a tool is missing."""
        need_tool("ziglang" if self.compiler[: len(_ZIG)] == _ZIG else self.compiler[0])
        if self.runner:
            need_tool(self.runner[0])


def need_tool(name: str) -> None:
    """Skip the calling test, with the reason, where a program is missing."""
    if shutil.which(name) or importlib.util.find_spec(name):
        return
    reason = f"needs {name}, which this machine does not have"
    if os.environ.get("P2PMOE_REQUIRE_SHARED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


# The sanitisers of gcc, without those that make it compile for minutes: clang's, on the
# same bodies, have these as well. Checks by calls compile in a third of the time.
_SANITISED = (
    "gcc",
    "-O1",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize=pointer-overflow,object-size,null",
    "-fno-sanitize-recover=all",
    "--param",
    "asan-instrumentation-with-call-threshold=0",
)
_CLANG = (*_ZIG, "-static", "-g0", "-target")  # a target, or it is this very CPU
_ON_X86 = () if platform.machine() == "x86_64" else ("qemu-x86_64-static",)
_TRAP = ("-fsanitize=undefined,float-cast-overflow", "-fsanitize-trap=all")
BUILDS = {
    each.name: each
    for each in (
        Build("sanitised", _SANITISED),
        Build(
            "clang",
            (*_CLANG, "x86_64-linux-musl", "-O3", "-fno-sanitize=all"),
            _ON_X86,
        ),
        Build(
            "aarch64",
            (*_CLANG, "aarch64-linux-musl", "-O2", *_TRAP),
            ("qemu-aarch64-static",),
        ),
    )
}


@dataclass(frozen=True)
class Driver:
    """A built driver and the command that runs it."""

    command: tuple[str, ...]

    def on(self, *runner: str) -> "Driver":
        """Return the same program run by another command (an emulated processor)."""
        return replace(self, command=(*runner, self.command[-1]))

    def sets(self) -> list[str]:
        """Return the instruction sets that run there, the best last."""
        done = subprocess.run(
            (*self.command, "--sets"), capture_output=True, check=True, text=True
        )
        return done.stdout.split()

    def run(self, own: str, cases: Sequence[Case]) -> list[Answer]:
        """Return the answers of the instruction set `own`, one for each case."""
        done = self.run_raw(stream_of(own, cases))
        assert done.returncode == 0, (done.returncode, done.stderr[-4000:].decode())
        answers = []
        at = 0
        while at < len(done.stdout):
            outcome, kept, size = struct.unpack_from("<IIQ", done.stdout, at)
            at += 16 + size
            answers.append(Answer(outcome, bool(kept), done.stdout[at - size : at]))
        assert len(answers) == len(cases)
        return answers

    def run_raw(self, stream: bytes) -> subprocess.CompletedProcess[bytes]:
        """Feed the driver anything at all."""
        return subprocess.run(
            self.command,
            input=stream,
            capture_output=True,
            timeout=_RUN_SECONDS,
            check=False,
        )


def float_bits(value: float) -> int:
    """Return the bits of a float32, as the driver takes it among the numbers."""
    return int.from_bytes(struct.pack("<f", value), "little")


def stream_of(own: str, cases: Sequence[Case]) -> bytes:
    """Return what the driver reads; its head says how it is laid out."""
    parts = [b"P2PK", own.encode().ljust(16, b"\0")]
    for case in cases:
        head = (case.operation, case.mode, case.result_shift)
        counts = (len(case.numbers), len(case.places))
        parts.append(struct.pack("<5I", *head, *counts))
        parts.append(struct.pack(f"<{len(case.numbers)}q", *case.numbers))
        for place in case.places:
            size = -1 if place.held is None else len(place.held)
            parts += [struct.pack("<qI", size, place.shift), place.held or b""]
    return b"".join(parts)


def build_driver(build: Build, folder: Path) -> Driver:
    """Compile the driver into `folder`; skips where a tool is missing."""
    build.need()
    units = sorted(
        path for path in _SOURCES.glob("*.c") if not path.stem.endswith("_module")
    )
    units += sorted(Path(__file__).parent.glob("kernel_driver*.c"))

    def compile_unit(unit: Path) -> str:
        made = str(folder / f"{unit.stem}.o")
        run_compiler(*build.compiler, *_FLAGS, "-c", str(unit), "-o", made)
        return made

    big_first = sorted(units, key=lambda unit: "product_avx" not in unit.stem)
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_unit, big_first))
    program = str(folder / "kernel_driver")
    run_compiler(*build.compiler, *objects, "-lm", "-o", program)
    return Driver((*build.runner, program))


def run_compiler(*command: str) -> None:
    """Run a compiler; its complaints become the failure's message."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
