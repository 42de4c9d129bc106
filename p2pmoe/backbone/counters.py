"""Totals of the whole backbone since it started, as Prometheus text.

Rules: written by the trio side only, when a request ends or something goes wrong. An
expert call that serves rows of several requests counts for each of them, as it does in
their own figures; bytes are counted once.
"""

from collections.abc import Mapping

from p2pmoe.backbone.path_times import PathTimes
from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.prometheus import render_metric

__all__ = ["BackboneCounters"]


class BackboneCounters:
    """Totals since the start of the process; written by the trio side."""

    __slots__ = (
        "bytes_down",
        "bytes_up",
        "calls",
        "completion_tokens",
        "dropped_calls",
        "duplicate_servings",
        "failovers",
        "fetched_bytes",
        "hedge_audits",
        "hedged_calls",
        "hedges",
        "late_outputs",
        "major_faults",
        "minor_faults",
        "prompt_tokens",
        "read_bytes",
        "refused_outputs",
        "requests",
        "round_trips",
        "spot_checks",
        "times",
        "unpaid_servings",
        "wait_s",
    )

    def __init__(self) -> None:
        """Begin at zero."""
        self.calls = dict.fromkeys(Tier, 0)
        self.failovers: dict[str, int] = {}
        self.spot_checks = {"passed": 0, "failed": 0, "skipped": 0}
        self.requests: dict[str, int] = {}
        self.hedges = {"won": 0, "lost": 0, "failed": 0, "probe": 0}
        self.hedge_audits = {"agreed": 0, "differed": 0, "undecided": 0}
        self.duplicate_servings = 0  # paid, and not needed
        self.unpaid_servings = 0  # answered too long after our CANCEL
        self.dropped_calls = 0
        self.late_outputs = 0
        self.refused_outputs = 0
        self.round_trips = 0
        self.hedged_calls = 0
        self.fetched_bytes = 0
        self.bytes_up = 0
        self.bytes_down = 0
        self.read_bytes = 0
        self.minor_faults = 0
        self.major_faults = 0
        self.wait_s = 0.0
        self.times = PathTimes()  # of remote calls
        self.prompt_tokens = 0
        self.completion_tokens = 0

    def failed_over(self, reason: str, n_calls: int) -> None:
        """Count calls that had to be computed elsewhere."""
        self.failovers[reason] = self.failovers.get(reason, 0) + n_calls

    def finished(
        self, trace: RequestTrace, outcome: str, tokens: tuple[int, int]
    ) -> None:
        """Add a finished request: its outcome, and its (prompt, completion) tokens."""
        self.requests[outcome] = self.requests.get(outcome, 0) + 1
        self.prompt_tokens += tokens[0]
        self.completion_tokens += tokens[1]
        self.round_trips += trace.decode_trips + trace.prefill_trips
        self.hedged_calls += trace.hedges
        self.fetched_bytes += trace.fetched_bytes
        self.bytes_up += trace.bytes_up
        self.bytes_down += trace.bytes_down
        self.dropped_calls += trace.dropped_calls
        self.read_bytes += trace.read_bytes
        self.minor_faults += trace.minor_faults
        self.major_faults += trace.major_faults
        self.wait_s += trace.wait_s
        for tier, n in trace.calls.items():
            self.calls[tier] += n

    def render(self) -> str:
        """Return the Prometheus text of these totals."""
        by_tier = [({"tier": tier.value}, n) for tier, n in self.calls.items()]
        tokens = [
            ({"kind": "prompt"}, self.prompt_tokens),
            ({"kind": "completion"}, self.completion_tokens),
        ]
        traffic = [
            ({"direction": "up"}, self.bytes_up),
            ({"direction": "down"}, self.bytes_down),
        ]
        faults = [
            ({"kind": "minor"}, self.minor_faults),
            ({"kind": "major"}, self.major_faults),
        ]
        duplicates = {"yes": self.duplicate_servings, "no": self.unpaid_servings}
        return "".join(
            (
                render_metric("p2pmoe_expert_calls_total", by_tier),
                render_metric("p2pmoe_dropped_calls_total", [({}, self.dropped_calls)]),
                render_metric("p2pmoe_read_bytes_total", [({}, self.read_bytes)]),
                render_metric("p2pmoe_page_faults_total", faults),
                render_metric("p2pmoe_wait_seconds_total", [({}, self.wait_s)]),
                render_metric("p2pmoe_tokens_total", tokens),
                render_metric("p2pmoe_expert_bytes_total", traffic),
                render_metric("p2pmoe_round_trips_total", [({}, self.round_trips)]),
                render_metric("p2pmoe_hedged_calls_total", [({}, self.hedged_calls)]),
                render_metric("p2pmoe_fetched_bytes_total", [({}, self.fetched_bytes)]),
                render_metric(
                    "p2pmoe_failovers_total", _labelled("reason", self.failovers)
                ),
                render_metric(
                    "p2pmoe_spot_checks_total", _labelled("result", self.spot_checks)
                ),
                render_metric(
                    "p2pmoe_requests_total", _labelled("outcome", self.requests)
                ),
                render_metric("p2pmoe_hedges_total", _labelled("outcome", self.hedges)),
                render_metric(
                    "p2pmoe_hedge_audits_total", _labelled("result", self.hedge_audits)
                ),
                render_metric(
                    "p2pmoe_duplicate_servings_total", _labelled("paid", duplicates)
                ),
                render_metric("p2pmoe_late_outputs_total", [({}, self.late_outputs)]),
                render_metric(
                    "p2pmoe_refused_outputs_total", [({}, self.refused_outputs)]
                ),
            )
        )


def _labelled(
    label: str, values: Mapping[str, int]
) -> list[tuple[dict[str, str], float]]:
    return [({label: key}, n) for key, n in sorted(values.items())]
