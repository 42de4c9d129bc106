"""Experts from disk: the right bytes, a bounded cache, a clear error when cut short."""

import threading
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.disk import DiskTier
from p2pmoe.backbone.disk_experts import DiskCall, DiskWork
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.model_file import open_model
from tests.support.backbone_model import POCKET, model_of

ONE, TWO, THREE = ExpertId(1, 0), ExpertId(3, 31), ExpertId(7, 5)


def tier(max_bytes: int) -> DiskTier:
    return DiskTier(ExpertFile(model_of(POCKET)), max_bytes=max_bytes, cost=LocalCost())


def test_the_cache_is_bounded_and_gives_the_same_objects() -> None:
    disk = tier(2 * 55_296)
    first = disk.load(ONE)
    assert disk.load(ONE) is first
    disk.load(TWO)
    assert disk.load(ONE) is first
    disk.load(THREE)  # TWO was used longest ago
    assert disk.load(ONE) is first
    assert disk.n_bytes == 2 * 55_296
    assert (disk.n_reads, disk.n_hits) == (3, 3)
    assert disk.n_read_bytes == 3 * 55_296


def test_without_room_nothing_is_kept() -> None:
    disk = tier(0)
    disk.load(ONE)
    disk.load(ONE)
    assert (disk.n_reads, disk.n_bytes) == (2, 0)


def test_b03_a_file_cut_short_is_an_error_that_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(POCKET.read_bytes())
    file = open_model(path)
    disk = DiskTier(ExpertFile(file), max_bytes=1 << 20, cost=LocalCost())
    disk.load(ONE)
    with path.open("r+b") as cut:
        cut.truncate(file.n_bytes // 4)
    for _ in range(2):
        with pytest.raises(ModelFileError, match=r"cut\.gguf"):
            disk.load(THREE)
    disk.load(ONE)
    assert disk.lost == {THREE}
    assert len(caplog.messages) == 1  # each shard once


def test_many_threads_share_one_bounded_cache() -> None:
    disk = tier(3 * 55_296)
    experts = [ExpertId(1, index) for index in range(6)]
    seen: list[int] = []

    def work(offset: int) -> None:
        for at in range(60):
            disk.load(experts[(at + offset) % 6])
            seen.append(disk.n_bytes)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(seen) <= 3 * 55_296
    assert disk.n_bytes == sum(n for _, n in disk._kept.values())
    assert disk.n_reads + disk.n_hits == 4 * 60


def test_a_read_is_timed_for_the_cost_model() -> None:
    cost = LocalCost()
    times = iter([1.0, 1.5])
    disk = DiskTier(
        ExpertFile(model_of(POCKET)),
        max_bytes=1 << 20,
        cost=cost,
        monotonic=lambda: next(times),
    )
    disk.load(ONE)
    assert cost.disk_s(0, 55_296) == pytest.approx(0.5)


def test_what_is_adopted_is_not_kept_here_as_well() -> None:
    adopted: list[ExpertId] = []

    def adopt(expert: ExpertId, _: object) -> bool:
        adopted.append(expert)
        return expert == ONE

    disk = DiskTier(
        ExpertFile(model_of(POCKET)), max_bytes=1 << 20, cost=LocalCost(), adopt=adopt
    )
    disk.load(ONE)
    disk.load(TWO)
    disk.load(TWO)
    assert adopted == [ONE, TWO]
    assert disk.n_bytes == 55_296


def test_a_layers_calls_are_computed_as_they_come() -> None:
    disk = tier(1 << 20)
    file = ExpertFile(model_of(POCKET))
    kernel = NumpyKernel()
    hidden = np.random.default_rng(1).standard_normal((3, 256), np.float32)
    coded = file.code(1, hidden, kernel)
    calls = [DiskCall(expert=0), DiskCall(expert=5, rows=np.array([0, 2]))]
    work = DiskWork(
        layer=1, calls=calls, coded=coded, profile=Profile.R16, kernel=kernel
    )
    jobs = [
        KernelCall(weights=file.weights(ExpertId(1, call.expert)), rows=call.rows)
        for call in calls
    ]
    expected = kernel.expert_values(jobs, coded, Profile.R16)
    for n_hits, n_bytes in ((0, 2 * 55_296), (2, 0)):
        answer = disk.begin(work).finish()
        assert (answer.n_hits, sum(answer.read_bytes.values())) == (n_hits, n_bytes)
        assert [answer.values[e].tobytes() for e in (0, 5)] == [
            values.tobytes() for values in expected
        ]
