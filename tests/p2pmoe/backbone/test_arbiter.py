"""Right is what this machine computes, or what a third worker agrees with."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import trio
import trio.testing

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.expert_id import ExpertId
from mobile_worker.servings.hashes import x_hash
from p2pmoe.backbone.arbiter import (
    MAX_FILES,
    MAX_WAITING,
    Arbiter,
    ArbiterParts,
    opened_rows,
)
from p2pmoe.backbone.fleet import Status
from p2pmoe.weights.errors import ModelFileError
from tests.support.backbone import DispatchRig, peer_id
from tests.support.trio_test import trio_test


def not_here(expert: ExpertId, rows: ExpertInput) -> bytes:
    raise ModelFileError("model.gguf", f"no {expert} here")


def here(expert: ExpertId, rows: ExpertInput) -> bytes:
    assert rows.floats is not None
    return (rows.floats * np.float32(expert.index + 1)).astype("<f4").tobytes()


def disputed(
    liar: int,
    *,
    n_workers: int = 3,
    check_rate: float = 0.0,
    values: tuple[float, float] | None = None,
) -> DispatchRig:
    """Return a rig in which worker 2 came before worker 1, and one of them lied.

    `values`: what the honest one says of one place, and the liar.
    """
    holders = {n: {0, 1} for n in range(1, n_workers + 1)}
    rig = DispatchRig(holders, check_rate=check_rate)
    rig.is_judged = True
    for n in range(1, n_workers + 1):
        rig.measured(n, 0.020)
    rig.earn_hedges(20)
    rig.dispatcher.start(rig.work({1: {0: (0, 2), 1: (1,)}}))
    rig.wait(0.041)
    for n in (2, 1):
        (dispatch,) = rig.dispatches(n)
        rows = rig.rows_of(dispatch).copy()
        rows[1, 3] = values[n == liar] if values else rows[1, 3] + (n == liar)
        rig.answer(n, dispatch, rows=rows)
    return rig


def arbiter_of(rig: DispatchRig, compute, folder: Path | None = None) -> Arbiter:
    return Arbiter(
        ArbiterParts(
            compute=compute, fleet=rig.fleet, clock=lambda: rig.now, folder=folder
        )
    )


async def judge(
    rig: DispatchRig,
    arbiter: Arbiter,
    *,
    lies: bool = False,
    value: float | None = None,
) -> None:
    """Have a dispute looked into; worker 3, if it lies, agrees with the liar.

    `value`: what it says of the place in question.
    """
    (dispute,) = rig.disputes
    assert arbiter.take(dispute)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(arbiter.run, rig.dispatcher)
            while sum(rig.counters.hedge_audits.values()) == 0:
                if rig.dispatches(3):
                    (asked,) = rig.dispatches(3)
                    rows = rig.rows_of(asked).copy()
                    rows[1, 3] = rows[1, 3] + lies if value is None else value
                    rig.answer(3, asked, rows=rows)
                await trio.sleep(0.001)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


def banned(rig: DispatchRig) -> set[int]:
    return {p[0] for p, w in rig.fleet.workers.items() if w.status is Status.DROPPED}


@pytest.mark.parametrize("liar", [1, 2])
@pytest.mark.parametrize("compute", [here, not_here])
@trio_test
async def test_the_liar_is_found_here_or_by_a_third_worker(liar: int, compute) -> None:
    rig = disputed(liar)
    await judge(rig, arbiter_of(rig, compute))
    assert banned(rig) == {liar}
    assert bool(rig.dispatches(3)) is (compute is not_here)
    assert rig.counters.hedge_audits["differed"] == 1
    rig.wait(40.0)
    assert rig.accounts.add_up()


@trio_test
async def test_without_a_third_worker_nobody_is_convicted() -> None:
    rig = disputed(1, n_workers=2)
    await judge(rig, arbiter_of(rig, not_here))
    assert banned(rig) == set()
    assert rig.counters.hedge_audits["undecided"] == 1


@pytest.mark.parametrize(
    ("passes", "convicted"),
    [
        ((0, 1, 0), set()),
        ((0, 1, 1), {2}),
        ((0, 900, 200), {2}),
        ((0, 900, 199), set()),
    ],
)
@trio_test
async def test_strangers_convict_nobody_who_is_better_known(
    passes: tuple[int, int, int], convicted: set[int]
) -> None:
    rig = disputed(1)
    for n, known in enumerate(passes, start=1):
        rig.fleet.workers[peer_id(n)].passes = known
    await judge(rig, arbiter_of(rig, not_here), lies=True)
    assert banned(rig) == convicted
    rig.wait(40.0)
    assert rig.accounts.add_up()


@trio_test
async def test_right_to_the_bit_is_told_from_nearly_by_a_third_worker_too() -> None:
    rig = disputed(2, values=(0.0, -0.0))
    await judge(rig, arbiter_of(rig, not_here), value=0.0)
    assert banned(rig) == {2}


@trio_test
async def test_a_third_answer_that_a_check_was_drawn_for_is_paid_all_the_same() -> None:
    rig = disputed(1, check_rate=1.0)
    await judge(rig, arbiter_of(rig, not_here))
    assert banned(rig) == {1}
    assert peer_id(3) in {served.slot.peer for served in rig.accounts.accepted}


@trio_test
async def test_who_is_in_a_dispute_is_not_probed_with_its_question() -> None:
    rig = disputed(1, n_workers=4)
    rig.earn_hedges(40)
    rig.measured(2, 0.9, 128)
    for _ in range(2):
        rig.now += 5.0
        rig.fleet.relax(rig.now)
    assert peer_id(2) in rig.fleet.slow
    rig.sent.clear()
    await judge(rig, arbiter_of(rig, not_here))
    assert not rig.dispatches(2)
    assert banned(rig) == {1}


@trio_test
async def test_rows_of_a_serving_that_was_taken_and_is_wrong_are_kept(
    tmp_path: Path,
) -> None:
    rig = disputed(2)
    folder = tmp_path / "disputes"
    await judge(rig, arbiter_of(rig, here, folder))
    (dispute,) = rig.disputes
    wrong = dispute.sides[0]
    (path,) = folder.iterdir()
    assert path.name == f"{wrong.slot.tab.hex()}-{wrong.serving}.rows"
    rows = dispute.work.rows.take(np.array(dispute.call.rows))
    assert hashlib.sha256(path.read_bytes()).digest()[:16] == x_hash(rows)


@trio_test
async def test_a_full_or_broken_folder_only_loses_the_rows(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    for n in range(MAX_FILES):
        (full / f"{n}").touch()
    file = tmp_path / "file"
    file.touch()
    for folder in (full, file):
        rig = disputed(2)
        await judge(rig, arbiter_of(rig, here, folder))
        assert banned(rig) == {2}
    assert len(list(full.iterdir())) == MAX_FILES


def test_disputes_that_wait_are_bounded() -> None:
    rig = disputed(1)
    arbiter = arbiter_of(rig, here)
    taken = [arbiter.take(rig.disputes[0]) for _ in range(MAX_WAITING + 1)]
    assert taken == [True] * MAX_WAITING + [False]


def test_opened_rows_are_what_the_leaf_hashes() -> None:
    rig = DispatchRig({})
    rows = rig.work({}).rows
    raw = opened_rows(rows)
    assert hashlib.sha256(raw).digest()[:16] == x_hash(rows)
