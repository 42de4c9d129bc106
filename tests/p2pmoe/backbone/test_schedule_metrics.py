"""The samples of the schedule: names, and that they count what was done."""

from p2pmoe.backbone.schedule_metrics import schedule_page
from p2pmoe.demo.facts import Metrics
from tests.support.backbone_model import POCKET, generate, local_backbone, local_side
from tests.support.trio_test import trio_test


@trio_test
async def test_they_count_what_was_done() -> None:
    side = local_side(POCKET)
    async with local_backbone(side, max_batch=4) as backbone:
        assert "p2pmoe_requests_active 0\n" in schedule_page(backbone.engine)
        for _ in range(2):
            _, run = await generate(backbone, tuple(range(5, 25)), 3)
        await backbone.engine.idle()
        page = Metrics(schedule_page(backbone.engine))
        pool = backbone.engine.schedule.pool
    assert run.end().usage.cached_tokens == 19
    assert page.total("p2pmoe_steps_total") == 6
    assert page.total("p2pmoe_step_rows_total") == 20 + 1 + 4
    assert page.total("p2pmoe_decode_steps_total") == 4  # the first came of the prompt
    assert page.total("p2pmoe_decode_tokens_total") == 4
    assert page.total("p2pmoe_decode_sequence_steps_total") == 4
    for name in ("trips", "wait_seconds", "crossing_seconds"):
        assert page.total(f"p2pmoe_decode_{name}_total") == 0  # all is here
    assert page.total("p2pmoe_prefix_hits_total") == 1
    assert page.total("p2pmoe_prefix_tokens_total") == 19
    assert page.total("p2pmoe_kv_bytes") == pool.n_bytes
    assert pool.kept_bytes > 0
    for name in ("preemptions_total", "requests_refused_total", "requests_parked"):
        assert page.total(f"p2pmoe_{name}") == 0
    assert page.total("p2pmoe_batch_sequences") == 1
    assert page.total("p2pmoe_batch_rows_allowed") == 4 + 64
