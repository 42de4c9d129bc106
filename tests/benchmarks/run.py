"""Run benchmarks: `python -m tests.benchmarks.run AREA...|all`.

Prints machine and versions, then each figure beside its baseline (measured in the same
run) and its target. With BENCH_JSON=FILE each figure is also one line of JSON, added to
the file: {name, unit, ours, baseline, ratio, min, max, target, met}. What is being
measured goes to stderr. Exit code 0 also where a target is missed: a benchmark
measures, it does not judge; 2 where there is no such area.
"""

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from tests.benchmarks.figures import Figure

__all__ = ["areas", "json_line", "machine", "main", "measure", "notes", "table"]

FOLDER = Path(__file__).resolve().parent
_HEADER = ("figure", "ours", "min..max", "baseline", "ratio", "target", "met")


def areas() -> list[str]:
    """Return the areas that have a benchmark, in order of name."""
    return sorted(p.stem.removeprefix("bench_") for p in FOLDER.glob("bench_*.py"))


def measure(area: str) -> list[Figure]:
    """Run one area's benchmark."""
    found: list[Figure] = importlib.import_module(
        f"tests.benchmarks.bench_{area}"
    ).run()
    return found


def notes(area: str) -> list[str]:
    """Return what an area says below its table; most say nothing."""
    module = importlib.import_module(f"tests.benchmarks.bench_{area}")
    return module.notes() if hasattr(module, "notes") else []


def machine() -> str:
    """Return the machine and the versions that speed depends on, in a line."""
    modules = ("numpy", "trio", "websockets", "wasmtime", "xllamacpp")
    return (
        f"{platform.machine()}, {_cpu_model()}, {os.cpu_count()} cores, "
        f"{platform.system()}, Python {platform.python_version()}, "
        + ", ".join(f"{name} {_version(name)}" for name in modules)
    )


def _cpu_model() -> str:
    """Return what the processor calls itself, where the system tells."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in {"model name", "Hardware", "CPU part"}:
                return value.strip()
    return platform.processor() or "unknown processor"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def table(area: str, figures: Sequence[Figure]) -> str:
    """Return one area's figures as text, a line each."""
    rows = [_HEADER, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = [area]
    for name, *cells in rows:
        right = [cell.rjust(n) for cell, n in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join(["", name.ljust(widths[0]), *right]))
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    met = {None: "-", True: "yes", False: "NO"}[figure.met]
    return (
        f"{figure.name} [{figure.unit}]",
        f"{figure.ours:.4g}",
        f"{figure.minimum:.4g}..{figure.maximum:.4g}",
        "-" if figure.baseline is None else f"{figure.baseline:.4g}",
        "-" if figure.ratio is None else f"{figure.ratio:.3g}",
        "-" if figure.target is None else f"{figure.target:.4g}",
        met,
    )


def json_line(figure: Figure) -> str:
    """Return one figure as a JSON object with the nine keys that scripts rely on."""
    return json.dumps(
        {
            "name": figure.name,
            "unit": figure.unit,
            "ours": figure.ours,
            "baseline": figure.baseline,
            "ratio": figure.ratio,
            "min": figure.minimum,
            "max": figure.maximum,
            "target": figure.target,
            "met": figure.met,
        }
    )


def main(arguments: Sequence[str]) -> int:
    """Run the areas named, all without a name; return the exit code."""
    known = areas()
    chosen = known if list(arguments) in ([], ["all"]) else list(arguments)
    unknown = [area for area in chosen if area not in known]
    if unknown:
        print(f"no benchmark {unknown[0]!r}: all, {', '.join(known)}", file=sys.stderr)
        return 2
    print(machine(), flush=True)
    sink = os.environ.get("BENCH_JSON")
    for number, area in enumerate(chosen, 1):
        place = f"[{number}/{len(chosen)}] {area}"
        print(f"{place}: measuring", file=sys.stderr, flush=True)
        start = time.monotonic()
        figures = measure(area)
        took = f"{time.monotonic() - start:.0f} s"
        print(f"{place}: done in {took}", file=sys.stderr, flush=True)
        print(f"\n{table(area, figures)}", *notes(area), sep="\n", flush=True)
        if sink:
            with Path(sink).open("a", encoding="utf-8") as lines:
                lines.writelines(f"{json_line(figure)}\n" for figure in figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
