"""What prefetching fetched and what came of it, since the process started.

Written by decode threads under the lock of `Prefetch`, told as metrics.
"""

from dataclasses import dataclass, field

from p2pmoe.backbone.prefetch.fetch_work import Lack
from p2pmoe.prometheus import render_metric

__all__ = ["PrefetchFigures"]


@dataclass(slots=True)
class PrefetchFigures:
    """Totals. A fetch is one wait of a lane, whatever came."""

    n_fetches: int = 0
    n_experts: int = 0  # fetched for a pass
    n_bytes: int = 0  # of shards, that came, for passes and to be kept
    n_hits: int = 0  # cold experts of a pass that had been fetched for it
    n_misses: int = 0  # cold experts, in layers that were foreseen, that had not
    n_kept: int = 0  # fetched experts that stayed in memory
    wait_s: float = 0.0
    lacks: dict[Lack, int] = field(default_factory=lambda: dict.fromkeys(Lack, 0))

    def render(self) -> str:
        """Return the Prometheus text of these totals."""
        needed = [({"result": "hit"}, self.n_hits), ({"result": "miss"}, self.n_misses)]
        lacks = [({"reason": why.value}, n) for why, n in self.lacks.items()]
        return "".join(
            (
                render_metric("p2pmoe_prefetches_total", [({}, self.n_fetches)]),
                render_metric(
                    "p2pmoe_prefetch_wait_seconds_total", [({}, self.wait_s)]
                ),
                render_metric(
                    "p2pmoe_prefetched_experts_total", [({}, self.n_experts)]
                ),
                render_metric("p2pmoe_prefetched_bytes_total", [({}, self.n_bytes)]),
                render_metric("p2pmoe_prefetch_cold_experts_total", needed),
                render_metric("p2pmoe_prefetch_kept_total", [({}, self.n_kept)]),
                render_metric("p2pmoe_prefetch_lacking_total", lacks),
            )
        )
