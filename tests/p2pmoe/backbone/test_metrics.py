"""The pages carry the names that the demo and the operators read."""

from pathlib import Path

from p2pmoe.backbone import path_times
from p2pmoe.backbone.metrics import (
    engine_page,
    local_page,
    network_page,
    path_page,
)
from p2pmoe.backbone.path_times import PathTimes
from tests.support.backbone_model import (
    POCKET,
    local_backbone,
    local_side,
    manifest_of,
    scattered_backbone,
)
from tests.support.memory_worker import World
from tests.support.trio_test import trio_test


@trio_test
async def test_local_and_engine_pages() -> None:
    side = local_side(POCKET, hot_share=0.5)
    assert 'p2pmoe_ram_planned_bytes{item="kv"}' in local_page(side)
    assert "p2pmoe_hot_experts 112\n" in local_page(side)
    for name in ("p2pmoe_disk_reads_ahead_total 0", "p2pmoe_evicted_experts_total 0"):
        assert f"{name}\n" in local_page(side)
    assert 'p2pmoe_foresight_recall{layer="7"} 1.0\n' in local_page(side)
    if side.before_bytes is not None:
        assert 'p2pmoe_ram_resident_bytes{when="now"} ' in local_page(side)
    kernel = f'p2pmoe_kernel_rate_macs_per_second{{kernel="{side.kernel.name}"}} '
    assert kernel in local_page(side)
    async with local_backbone(side) as backbone:
        page = engine_page(backbone.engine, backbone.counters)
        assert "p2pmoe_requests_active 0\n" in page
        assert 'p2pmoe_expert_calls_total{tier="ram"} 0\n' in page


def test_paths_are_told_once_they_are_measured() -> None:
    side, times = local_side(POCKET, hot_share=0.5), PathTimes()
    side.cost.observe_compute(0.5, 2)
    times.add(path_times.Path.EDGE, 0.125)
    page = path_page(side.cost.times, times)
    assert page.count("# TYPE p2pmoe_path_seconds gauge") == 1
    assert 'p2pmoe_path_seconds{path="ram",quantile="mean"} 0.25\n' in page
    assert 'p2pmoe_path_seconds{path="edge",quantile="0.95"} 0.125\n' in page


@trio_test
async def test_the_network_page_names_what_the_demo_reads(
    tmp_path: Path,
) -> None:
    world = World(manifest_of(POCKET), tmp_path)
    side = local_side(POCKET)
    async with world.services(), scattered_backbone(world, side) as backbone:
        page = network_page(backbone.joined)
    for name in (
        "p2pmoe_dispatches_in_flight",
        "p2pmoe_worker_calls_total",
        "p2pmoe_servings_accepted_total",
        "p2pmoe_servings_receipted_total",
        "p2pmoe_servings_unsigned_at_kill_total",
        "p2pmoe_servings_open",
    ):
        assert f"# TYPE {name} " in page
