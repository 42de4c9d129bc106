"""Totals as metrics."""

from p2pmoe.backbone.prefetch.fetch_work import Lack
from p2pmoe.backbone.prefetch.figures import PrefetchFigures


def test_all_totals_are_told() -> None:
    figures = PrefetchFigures(
        n_fetches=1, n_experts=2, n_bytes=3, n_hits=4, n_misses=5, n_kept=6, wait_s=7.5
    )
    figures.lacks[Lack.LATE] = 8
    page = figures.render()
    for line in (
        "p2pmoe_prefetches_total 1",
        "p2pmoe_prefetched_experts_total 2",
        "p2pmoe_prefetched_bytes_total 3",
        'p2pmoe_prefetch_cold_experts_total{result="hit"} 4',
        'p2pmoe_prefetch_cold_experts_total{result="miss"} 5',
        "p2pmoe_prefetch_kept_total 6",
        "p2pmoe_prefetch_wait_seconds_total 7.5",
        'p2pmoe_prefetch_lacking_total{reason="late"} 8',
        'p2pmoe_prefetch_lacking_total{reason="wrong"} 0',
    ):
        assert line in page
