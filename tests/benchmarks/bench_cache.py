"""Which experts to keep in memory: policies on two traces, beside the best there is.

Room for 22 % of the experts. The oracle (Belady) knows the future and evicts what is
needed last; `ours / oracle` is the share of its hits. On the pocket model's trace it is
also shown what reading ahead does: an expert that the next layer's router named a layer
early counts as in memory when it is called, and costs a read all the same. No times:
the figures are the same in every run and on every machine. Half a minute.

With BENCH_PLOT=FILE.svg, and matplotlib, the hits over other sizes of room are drawn.
"""

import os
from functools import cache
from pathlib import Path

from tests.benchmarks.cache_policies import POLICIES, Product, belady
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.routing_traces import Trace, pocket_trace, skewed_trace

__all__ = ["notes", "run"]

SHARE = 0.22
TARGET = 0.85  # of the oracle's hits
OURS = "expected next use (ours)"
_SHARES = (0.1, 0.22, 0.4, 0.6, 0.8)
_DRAWN = ("LRU", "LFU, half-life 256", "hot set and small LRU (before)", OURS)


@cache
def traces() -> tuple[Trace, Trace]:
    """Return both traces, recorded once."""
    return pocket_trace(), skewed_trace()


def room(trace: Trace, share: float = SHARE) -> int:
    """Return how many experts there is room for."""
    return int(share * trace.experts.shape[1] * trace.n_expert)


@cache
def compared() -> dict[tuple[str, str], float]:
    """Return the hits by trace and policy, the oracle's as `oracle`."""
    found = {}
    for trace in traces():
        found[trace.name, "oracle"] = belady(trace, room(trace))
        for name, policy in POLICIES.items():
            found[trace.name, name] = policy(trace, room(trace))
    return found


@cache
def ahead() -> Product:
    """Return what reading ahead gives on the real trace."""
    real = traces()[0]
    return Product(real, room(real), ahead=True)


def run() -> list[Figure]:
    """Return our hits beside the oracle's, with and without reading ahead."""
    found = compared()
    figures = [
        figure(
            f"hits, {trace.name}, {what}",
            "share",
            [ours],
            baseline=[found[trace.name, "oracle"]],
            at_least=TARGET * found[trace.name, "oracle"],
        )
        for trace, what, ours in (
            (traces()[0], "kept", found["pocket", OURS]),
            (traces()[0], "kept or read ahead", ahead().hits),
            (traces()[1], "kept", found["skewed", OURS]),
        )
    ]
    if os.environ.get("BENCH_PLOT"):
        draw(Path(os.environ["BENCH_PLOT"]))
    return figures


def notes() -> list[str]:
    """Return the table of all policies."""
    found = compared()
    oracles = [found[trace.name, "oracle"] for trace in traces()]
    lines = [
        f"| policy, room for {SHARE:.0%} | pocket | of oracle | skewed | of oracle |"
    ]
    lines.append("|---|---|---|---|---|")
    for name in (*POLICIES, "oracle"):
        own = [found[trace.name, name] for trace in traces()]
        cells = (
            f"{hits:.3f} | {hits / oracle:.3f}"
            for hits, oracle in zip(own, oracles, strict=True)
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    product = ahead()
    lines.append("")
    plain = 1.0 - found["pocket", OURS]
    lines.append(
        f"read ahead (pocket): {product.hits:.3f} of calls find their expert in "
        f"memory; {product.n_reads / product.n_calls:.3f} reads a call, "
        f"without {plain:.3f}"
    )
    return lines


def draw(path: Path) -> None:
    """Draw hits over room for both traces; nothing without matplotlib."""
    try:
        from matplotlib.figure import Figure as Drawing
    except ImportError:
        return
    drawing = Drawing(figsize=(8, 3.4), layout="constrained")
    for axes, trace in zip(drawing.subplots(1, 2, sharey=True), traces(), strict=True):
        rooms = [room(trace, share) for share in _SHARES]
        best = [belady(trace, n) for n in rooms]
        axes.plot(_SHARES, best, "k--", label="oracle (Belady)")
        for name in _DRAWN:
            own = [POLICIES[name](trace, n) for n in rooms]
            axes.plot(_SHARES, own, marker=".", label=name)
        axes.set(title=trace.name, xlabel="experts in memory, share", ylim=(0, 1))
    drawing.axes[0].set_ylabel("hits, share of calls")
    drawing.axes[1].legend(fontsize="x-small")
    drawing.savefig(path, metadata={"Date": None})
