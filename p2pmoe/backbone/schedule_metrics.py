"""What the schedule and its lanes have done, as samples for the metrics page.

Read without the schedule's lock: a sample may be a step late.
"""

from p2pmoe.backbone.engine import Engine
from p2pmoe.prometheus import render_metric

__all__ = ["schedule_page"]


def schedule_page(engine: Engine) -> str:
    """Return requests by state, memory of keys and values, batches and steps."""
    schedule, lanes = engine.schedule, engine.lanes
    passes = [lane.totals for lane in lanes]
    pool = schedule.pool
    n_parked = sum(s.parked_until is not None for own in schedule.lanes for s in own)
    memory = [
        ({"use": "granted"}, pool.granted_bytes),
        ({"use": "kept"}, pool.kept_bytes),
        ({"use": "free"}, pool.free_bytes),
    ]
    batches = [({"lane": str(i)}, lane.n_last) for i, lane in enumerate(lanes)]
    allowed = [({"lane": str(i)}, own.rows) for i, own in enumerate(schedule.cold)]
    totals = {
        "p2pmoe_requests_refused_total": schedule.n_refused,
        "p2pmoe_steps_total": sum(lane.n_steps for lane in lanes),
        "p2pmoe_step_rows_total": sum(lane.n_rows for lane in lanes),
        "p2pmoe_preemptions_total": schedule.n_preemptions,
        "p2pmoe_prefix_hits_total": schedule.n_prefix_hits,
        "p2pmoe_prefix_tokens_total": schedule.n_reused,
        "p2pmoe_decode_steps_total": sum(own.n_passes for own in passes),
        "p2pmoe_decode_sequence_steps_total": sum(own.n_sequences for own in passes),
        "p2pmoe_decode_tokens_total": sum(own.n_committed for own in passes),
        "p2pmoe_rejected_draft_servings_total": sum(
            own.n_rejected_servings for own in passes
        ),
        "p2pmoe_decode_trips_total": sum(own.n_trips for own in passes),
        "p2pmoe_decode_wait_seconds_total": sum(own.wait_s for own in passes),
        "p2pmoe_decode_crossing_seconds_total": sum(own.crossing_s for own in passes),
    }
    return "".join(
        (
            render_metric("p2pmoe_requests_active", [({}, engine.n_active)]),
            render_metric("p2pmoe_requests_waiting", [({}, engine.n_waiting)]),
            render_metric("p2pmoe_requests_parked", [({}, n_parked)]),
            render_metric("p2pmoe_kv_bytes", memory),
            render_metric("p2pmoe_batch_sequences", batches),
            render_metric("p2pmoe_batch_rows_allowed", allowed),
            *(render_metric(name, [({}, n)]) for name, n in totals.items()),
        )
    )
