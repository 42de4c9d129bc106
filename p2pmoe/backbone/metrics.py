"""The backbone's page of samples, put together from its parts when asked.

Names and labels are stable: the demo and the operators' dashboards read them. Workers
are named by their whole peer id in hex, as their own logs and the ledger name them.
"""

from typing import TYPE_CHECKING

from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.engine import Engine
from p2pmoe.backbone.free_memory import resident_bytes
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.path_times import PathTimes
from p2pmoe.backbone.schedule_metrics import schedule_page
from p2pmoe.backbone.speculation_metrics import speculation_page
from p2pmoe.prometheus import render_metric

if TYPE_CHECKING:
    from p2pmoe.backbone.joining import Joined

__all__ = ["engine_page", "local_page", "network_page", "path_page"]


def local_page(local: LocalSide) -> str:
    """Return the kernel, the memory plan, the hot set and what was read from disk."""
    items = {**local.plan.items(), "hot": local.hot.budget_bytes}
    plan = [({"item": item}, n) for item, n in items.items()]
    disk, chosen = local.disk, local.chosen
    rate = [({"kernel": chosen.name}, chosen.rate_macs_s)]
    return "".join(
        (
            render_metric("p2pmoe_kernel_rate_macs_per_second", rate),
            render_metric("p2pmoe_ram_planned_bytes", plan),
            render_metric("p2pmoe_ram_resident_bytes", _taken(local)),
            render_metric("p2pmoe_hot_bytes", [({}, local.hot.n_bytes)]),
            render_metric("p2pmoe_hot_experts", [({}, len(local.hot.resident()))]),
            render_metric("p2pmoe_disk_reads_total", [({}, disk.n_reads)]),
            render_metric("p2pmoe_disk_read_bytes_total", [({}, disk.n_read_bytes)]),
            render_metric("p2pmoe_disk_cache_hits_total", [({}, disk.n_hits)]),
            render_metric("p2pmoe_disk_lost_shards", [({}, len(disk.lost))]),
            disk.samples(),
            "" if local.prefetch is None else local.prefetch.samples(),
        )
    )


def _taken(local: LocalSide) -> list[tuple[dict[str, str], float]]:
    """Return what the process takes, and took before it opened the model."""
    found = {"now": resident_bytes(), "before": local.before_bytes}
    return [({"when": when}, n) for when, n in found.items() if n is not None]


def engine_page(engine: Engine, counters: BackboneCounters) -> str:
    """Return requests, tokens, expert calls, drafts, and what went wrong with them."""
    drafts = speculation_page(lane.speculation for lane in engine.lanes)
    return counters.render() + schedule_page(engine) + drafts


def path_page(*measured: PathTimes) -> str:
    """Return what an expert call takes by each path."""
    samples = [sample for times in measured for sample in times.samples()]
    return render_metric("p2pmoe_path_seconds", samples)


def network_page(joined: "Joined") -> str:
    """Return what each worker does, and how the accounts stand."""
    totals = joined.settlement.totals()
    open_servings = totals.accepted - totals.receipted - totals.unsigned_at_kill
    in_flight = joined.dispatcher.in_flight()
    workers = joined.fleet.workers
    flying = [({"worker": p.hex()}, in_flight.get(p, 0)) for p in workers]
    calls = [({"worker": p.hex()}, w.n_calls) for p, w in workers.items()]
    states = [({"worker": p.hex(), "status": w.status}, 1) for p, w in workers.items()]
    slow = [({"worker": p.hex()}, int(p in joined.fleet.slow)) for p in workers]
    round_trips = [({"worker": p.hex()}, w.cost.rtt_s) for p, w in workers.items()]
    unsigned: list[tuple[dict[str, str], int]] = [({}, totals.unsigned_at_kill)]
    filings = joined.bookkeeper.filings
    filed: list[tuple[dict[str, str], int]] = [({}, filings.n_servings)]
    return "".join(
        (
            render_metric("p2pmoe_dispatches_in_flight", flying),
            render_metric("p2pmoe_worker_calls_total", calls),
            render_metric("p2pmoe_worker_status", states),
            render_metric("p2pmoe_worker_slow", slow),
            render_metric("p2pmoe_worker_rtt_seconds", round_trips),
            render_metric("p2pmoe_servings_accepted_total", [({}, totals.accepted)]),
            render_metric("p2pmoe_servings_receipted_total", [({}, totals.receipted)]),
            render_metric("p2pmoe_servings_filed_total", filed),
            render_metric("p2pmoe_servings_unsigned_at_kill_total", unsigned),
            render_metric("p2pmoe_servings_open", [({}, open_servings)]),
            render_metric("p2pmoe_vouchers_rejected_total", [({}, filings.n_rejected)]),
        )
    )
