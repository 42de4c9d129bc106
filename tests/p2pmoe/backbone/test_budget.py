"""Budgets are in bytes, every item is counted, and their sum never passes --ram."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mobile_worker.arithmetic.candidates import Keeps
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.budget import (
    SERVING_BYTES,
    MemoryPlan,
    MemoryWish,
    ModelSizes,
    measure_sizes,
    plan_memory,
)
from p2pmoe.errors import RamTooSmall
from p2pmoe.model.model import describe_model
from p2pmoe.weights.model_file import open_model
from tests.support.backbone_model import POCKET
from tests.support.mini_m3 import write_mini_m3

MIB = 1 << 20


def sizes_of(
    *, base: int = 10 * MIB, decoded: int = 40 * MIB, expert: int = MIB, n: int = 64
) -> ModelSizes:
    return ModelSizes(
        base=base,
        base_decoded=decoded,
        kv_per_token=1024,
        working=MIB,
        experts={ExpertId(1, index): expert for index in range(n)},
    )


def total(plan: MemoryPlan) -> int:
    return sum(plan.items().values())


def planned(sizes: ModelSizes, ram_bytes: int | None, **changes: object) -> MemoryPlan:
    wish = MemoryWish(
        ram_bytes=ram_bytes,
        **{"keeps": Keeps.UNPACKED, "n_context": 1024, "n_sequences": 2, **changes},
    )
    return plan_memory(sizes, wish)


def test_without_a_budget_all_experts_are_resident() -> None:
    plan = planned(sizes_of(), None, n_context=100, n_lanes=2)
    assert plan.hot is None
    assert plan.kv == 2 * 100 * 1024
    assert plan.working == 2 * MIB + SERVING_BYTES
    assert plan.disk == 3 * MIB
    assert plan.window == MIB
    assert plan.items()["hot"] == 0


def test_a_budget_is_divided_to_the_last_byte() -> None:
    ram = 200 * MIB
    plan = planned(sizes_of(), ram, n_lanes=2)
    assert total(plan) == ram
    assert plan.decoded == 40 * MIB
    assert plan.hot is not None
    assert plan.hot > 100 * MIB


def test_keys_and_values_get_a_quarter_within_their_bounds() -> None:
    one = 1024 * 1024
    ram = 10 * MIB + MIB + SERVING_BYTES + 80 * MIB
    assert planned(sizes_of(), ram, n_sequences=2).kv == 2 * one
    assert planned(sizes_of(), ram, n_sequences=64).kv == 20 * MIB
    assert planned(sizes_of(), ram, n_context=40_960).kv == 40 * MIB  # one sequence
    assert planned(sizes_of(), None, n_sequences=64).kv == (10 + 64) * MIB // 4


def test_a_kernel_that_reads_in_place_leaves_its_share_to_the_hot_set() -> None:
    assert planned(sizes_of(), None, keeps=Keeps.NOTHING).decoded == 0
    plan = planned(sizes_of(), 200 * MIB, keeps=Keeps.NOTHING)
    assert plan.decoded == 0
    assert total(plan) == 200 * MIB
    assert (plan.hot or 0) > 160 * MIB


def test_a_kernel_that_copies_has_room_for_the_base_once_more() -> None:
    plan = planned(sizes_of(), 200 * MIB, keeps=Keeps.COPIES)
    assert plan.decoded == plan.base == 10 * MIB


def test_a_kernel_that_cannot_unpack_all_gets_a_sixteenth() -> None:
    sizes = sizes_of(decoded=900 * MIB)
    plan = planned(sizes, 100 * MIB, n_context=0)
    left = 100 * MIB - sizes.base - sizes.working - SERVING_BYTES
    assert plan.decoded == left // 16
    assert total(plan) == 100 * MIB


def test_the_disks_share_is_bounded_and_holds_the_largest_expert() -> None:
    large = sizes_of(decoded=0, expert=100 * MIB, n=2)
    assert planned(large, 1024 * MIB, n_context=0).disk == 200 * MIB
    plan = planned(sizes_of(), 8192 * MIB, n_context=0)
    assert (plan.disk, plan.window) == (64 * MIB, 32 * MIB)


def test_the_disks_share_may_be_given() -> None:
    plan = planned(sizes_of(), 200 * MIB, disk_bytes=30 * MIB)
    assert plan.disk == 30 * MIB
    assert total(plan) == 200 * MIB
    assert planned(sizes_of(), None, disk_bytes=5 * MIB).disk == 5 * MIB
    with pytest.raises(RamTooSmall, match=r"of 1\.5 MiB is below the 2\.0 MiB") as no:
        planned(sizes_of(), 200 * MIB, disk_bytes=3 * MIB // 2)
    assert no.value.advice == "give --disk-cache 2M or more"
    with pytest.raises(RamTooSmall, match="is below the"):
        planned(sizes_of(), 200 * MIB, disk_bytes=199 * MIB)


def test_chunks_that_wait_take_the_room_of_logits_and_more_if_they_must() -> None:
    sizes = replace(sizes_of(), waiting=MIB, logits=2 * MIB)
    rooms = [planned(sizes, None, n_chunks=n, n_lanes=2).working for n in (1, 3, 5)]
    assert [room - SERVING_BYTES for room in rooms] == [2 * MIB, 2 * MIB, 6 * MIB]
    pocket = measure_sizes(open_model(POCKET), describe_model(open_model(POCKET)))
    assert pocket.logits >= 2 * pocket.waiting  # it needs no more for three of them


def test_too_little_is_refused_with_what_is_needed() -> None:
    sizes = sizes_of()
    needed = sizes.base + 1024 * 1024 + 2 * sizes.working + SERVING_BYTES + 6 * MIB
    with pytest.raises(
        RamTooSmall, match=f"below the {needed / (1 << 20):.1f} MiB"
    ) as caught:
        planned(sizes, needed - 1, n_lanes=2)
    assert caught.value.exit_code == 2
    assert "--ram" in caught.value.advice
    parts = re.findall(r" (\d+\.\d)[,)]", str(caught.value))
    assert sum(map(float, parts)) == pytest.approx(needed / MIB, abs=0.2)
    planned(sizes, needed, n_lanes=2)


@settings(max_examples=50)
@given(
    ram=st.integers(1, 1 << 34),
    base=st.integers(0, 1 << 30),
    decoded=st.integers(0, 1 << 32),
    expert=st.integers(1, 1 << 28),
    keeps=st.sampled_from(Keeps),
    disk=st.none() | st.integers(1, 1 << 30),
)
@example(
    ram=5 * MIB,
    base=0,
    decoded=3 * MIB,
    expert=1_000_000,
    keeps=Keeps.UNPACKED,
    disk=None,
)
def test_no_item_is_negative_and_the_sum_is_the_budget(
    ram: int, base: int, decoded: int, expert: int, keeps: Keeps, disk: int | None
) -> None:
    sizes = sizes_of(base=base, decoded=decoded, expert=expert, n=4)
    try:
        plan = planned(sizes, ram, n_context=128, keeps=keeps, disk_bytes=disk)
    except RamTooSmall:
        return
    assert min(plan.items().values()) >= 0
    assert total(plan) == ram
    assert plan.disk >= 2 * plan.window >= 2 * expert
    assert plan.kv >= 128 * 1024


def test_sizes_are_those_of_the_files_own_bytes(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "mini.gguf")) as model_file:
        description = describe_model(model_file)
        sizes = measure_sizes(model_file, description)
        tensors = model_file.tensors.values()
        assert len(sizes.experts) == 4
        # three Q8_0 matrices of 32 x 64: 34 bytes for 32 weights
        assert set(sizes.experts.values()) == {3 * 32 * 64 // 32 * 34}
        routed = sum(sizes.experts.values())
        assert sizes.base + routed == sum(tensor.n_bytes for tensor in tensors)
        assert sizes.kv_per_token == description.kv_bytes_per_token
        plain = [t for t in tensors if len(t.shape) == 2 and "_exps." not in t.name]
        n_weights = sum(t.shape[0] * t.shape[1] for t in plain)
        assert sizes.base_decoded == int(n_weights * 4.125)


def test_weights_fetched_ahead_get_an_eighth_within_their_bounds() -> None:
    small = sizes_of(decoded=0, n=4096)
    for ram, share in ((40 * MIB, 4), (120 * MIB, 8)):
        plan = planned(small, ram, prefetches=True)
        left = plan.ahead + (plan.hot or 0)
        assert total(plan) == ram
        assert plan.ahead == left // share or plan.ahead == 8 * MIB
    assert planned(small, 4000 * MIB, prefetches=True).ahead == 256 * MIB
    assert planned(small, 120 * MIB).ahead == 0


def test_nothing_is_fetched_ahead_where_all_experts_fit() -> None:
    assert planned(sizes_of(n=8), 200 * MIB, prefetches=True).ahead == 0
    assert planned(sizes_of(), None, n_lanes=2).ahead == 0
    assert planned(sizes_of(), None, n_lanes=2, prefetches=True).ahead == 8 * MIB


def test_weights_fetched_ahead_may_be_given_their_room() -> None:
    sizes = sizes_of(decoded=0, n=4096)
    plan = planned(sizes, 120 * MIB, prefetches=True, ahead_bytes=20 * MIB)
    assert plan.ahead == 20 * MIB
    assert total(plan) == 120 * MIB
    plan = planned(sizes, 120 * MIB, prefetches=True, ahead_bytes=1 << 40)
    assert plan.ahead <= (plan.hot or 0) + 1
    assert planned(sizes, 120 * MIB, ahead_bytes=20 * MIB).ahead == 0
