"""Run benchmarks: `python -m tests.benchmarks.run AREA|all`.

Prints machine and versions, then each figure beside its baseline (measured in the
same run) and its target. With BENCH_JSON=FILE each figure is also one JSON line.
Exit code 0 also where a target is missed: a benchmark measures, it does not judge.
"""

import dataclasses
import importlib
import json
import os
import platform
import sys
from pathlib import Path

import numpy as np
import trio
import websockets

from tests.benchmarks.figures import Figure

FOLDER = Path(__file__).resolve().parent


def areas() -> list[str]:
    """Return the areas that have a benchmark, in order of name."""
    return sorted(p.stem.removeprefix("bench_") for p in FOLDER.glob("bench_*.py"))


def print_figures(area: str, figures: list[Figure]) -> None:
    """Print one area's figures as a table."""
    print(f"\n{area}")
    header = ("figure", "ours", "min..max", "baseline", "ratio", "target", "met")
    print("  {:<46}{:>12}{:>20}{:>12}{:>8}{:>12}  {}".format(*header))
    for f in figures:
        spread = f"{f.minimum:.4g}..{f.maximum:.4g}"
        baseline = "-" if f.baseline is None else f"{f.baseline:.4g}"
        ratio = "-" if f.ratio is None else f"{f.ratio:.2f}"
        target = "-" if f.target is None else f"{f.target:.4g}"
        met = "-" if f.met is None else ("yes" if f.met else "NO")
        print(
            f"  {f.name + ' [' + f.unit + ']':<46}{f.ours:>12.4g}{spread:>20}"
            f"{baseline:>12}{ratio:>8}{target:>12}  {met}"
        )


def main() -> int:
    """Run the areas named on the command line."""
    wanted = sys.argv[1:] or ["all"]
    known = areas()
    chosen = known if wanted == ["all"] else wanted
    unknown = [area for area in chosen if area not in known]
    if unknown:
        print(f"no benchmark {unknown[0]}: there are {', '.join(known)}")
        return 2
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, numpy {np.__version__}, trio "
        f"{trio.__version__}, websockets {websockets.__version__}"
    )
    sink = os.environ.get("BENCH_JSON")
    for area in chosen:
        figures = importlib.import_module(f"tests.benchmarks.bench_{area}").run()
        print_figures(area, figures)
        if sink:
            with Path(sink).open("a", encoding="utf-8") as lines:
                for figure in figures:
                    print(json.dumps(dataclasses.asdict(figure)), file=lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
