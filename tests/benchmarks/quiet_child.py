"""A process of `market_quiet`: computes experts as a worker does, or counts work.

quiet_child worker PRESET     experts without an end, as nice as the preset is
quiet_child other SECONDS     another program: for each line it is given, prints how
                              much it did in that time, and in how many seconds of
                              the processor
"""

import sys
import time

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.governor.limits import Preset
from mobile_worker.governor.presets import MANNERS
from mobile_worker.governor.priority import be_nice
from tests.benchmarks.kernel_rates import ExpertRotation, bench_input, open_kernels

__all__ = ["count", "work"]


def work(preset: Preset) -> None:
    """Compute experts without an end."""
    be_nice(MANNERS[preset].nice)
    kernel = next(iter(open_kernels().values()))
    rotation = ExpertRotation(kernel, Format.Q4_0)
    rows = bench_input(kernel, 1)
    print("ready", flush=True)
    while True:
        rotation.call(rows)


def count(seconds: float) -> tuple[int, float]:
    """Return rounds of plain arithmetic in so many seconds, and processor seconds."""
    n, end, before = 0, time.monotonic() + seconds, time.process_time()
    while time.monotonic() < end:
        sum(range(20_000))
        n += 1
    return n, time.process_time() - before


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        work(Preset(sys.argv[2]))
    print("ready", flush=True)
    for _ in sys.stdin:
        print(*count(float(sys.argv[2])), flush=True)
