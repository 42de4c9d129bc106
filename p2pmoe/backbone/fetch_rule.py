"""Whether to fetch an expert's weights over the network and keep them: if it pays back.

An expert that is used is computed by a worker each time, which costs a trip; fetched
once, it is computed here until something hotter takes its place. By measured use an
expert with a decayed count of c (use.py) will be used `c * ln 2` times within the next
half-life of the counts, if traffic goes on as it did. So it is worth fetching if

    c * ln 2 * (time of a remote call - time here) > time of a fetch

What was never measured speaks for fetching: so it is measured. Pure.
"""

import math
from dataclasses import dataclass

from p2pmoe.backbone.path_times import Path, PathTimes

__all__ = ["FetchRule", "fetch_rule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRule:
    """Seconds of a fetch, and those that each use of what was fetched saves."""

    fetch_s: float | None = None
    saved_s: float | None = None

    def pays(self, uses: float) -> bool:
        """Whether an expert with this decayed count is worth its fetch."""
        if self.fetch_s is None or self.saved_s is None:
            return True
        return uses * math.log(2.0) * self.saved_s > self.fetch_s


def fetch_rule(here: PathTimes, remote: PathTimes | None) -> FetchRule:
    """Return the rule that measured times give: those here, and of remote calls."""
    trips = [] if remote is None else [remote.mean_s(p) for p in (Path.HUB, Path.EDGE)]
    measured = [seconds for seconds in trips if seconds is not None]
    if not measured:
        return FetchRule(fetch_s=here.mean_s(Path.FETCH))
    saved = min(measured) - (here.mean_s(Path.RAM) or 0.0)
    return FetchRule(fetch_s=here.mean_s(Path.FETCH), saved_s=max(0.0, saved))
