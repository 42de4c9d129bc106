"""Opens the prefetch of a backbone that has joined a network."""

import time
from collections.abc import Callable

from p2pmoe.backbone.fetch_rule import fetch_rule
from p2pmoe.backbone.path_times import PathTimes
from p2pmoe.backbone.places import ExpertPlaces
from p2pmoe.backbone.prefetch.prefetch import Prefetch, PrefetchParts
from p2pmoe.config import DiskPolicy

__all__ = ["open_prefetch"]


def open_prefetch(
    places: ExpertPlaces,
    buffer_bytes: int,
    remote_times: Callable[[], PathTimes | None] = lambda: None,
) -> Prefetch | None:
    """Return the prefetch for `places`; None if weights cannot be had from others.

    A pass may fetch `buffer_bytes` at most. With a disk that has the experts none is
    fetched to be kept: the disk is nearer. `remote_times` are those of remote calls.
    """
    network = places.network
    if network is None or network.fetching is None or buffer_bytes <= 0:
        return None

    def pays(uses: float) -> bool:
        rule = fetch_rule(places.cost.times, remote_times())
        return places.policy is DiskPolicy.OFF and rule.pays(uses)

    return Prefetch(
        PrefetchParts(
            hot=places.hot,
            use=places.use,
            cost=places.cost,
            fleet=network.fleet,
            fetching=network.fetching,
            row_bytes=places.row_bytes,
            buffer_bytes=buffer_bytes,
            weighs_disk=places.policy is DiskPolicy.TIER,
            pays=pays,
            monotonic=time.monotonic,
        )
    )
