"""Experts from disk: the right bytes, bounded memory, a clear error when cut short."""

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
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.foresight import Foresight
from p2pmoe.backbone.use import UseCounts
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.backbone_model import POCKET, model_of

ONE, TWO, THREE = ExpertId(1, 0), ExpertId(3, 31), ExpertId(7, 5)
SIZE = 55_296
KERNEL = NumpyKernel()


class Tiers:
    """A disk and the hot set it reads into, over a model file."""

    def __init__(
        self,
        budget: int,
        *,
        window: int = 4 * SIZE,
        file: ModelFile | None = None,
        **more: object,
    ) -> None:
        self.file = ExpertFile(file or model_of(POCKET))
        sizes = {
            ExpertId(layer, index): SIZE for layer in range(1, 8) for index in range(32)
        }
        self.use = UseCounts(8, 32, 7)
        self.hot = HotSet(sizes, budget, self.file.weights, next_use=self.use.next_use)
        self.cost = LocalCost()
        self.disk = DiskTier(
            self.file, self.hot, window_bytes=window, cost=self.cost, **more
        )

    def work(self, layer: int, *calls: DiskCall) -> DiskWork:
        hidden = np.random.default_rng(1).standard_normal((3, 256), np.float32)
        coded = self.file.code(layer, hidden, KERNEL)
        return DiskWork(
            layer=layer, calls=calls, coded=coded, profile=Profile.R16, kernel=KERNEL
        )


def test_what_is_read_stays_while_there_is_room_and_is_the_same_object() -> None:
    tiers = Tiers(2 * SIZE)
    first = tiers.disk.load(ONE)
    assert tiers.disk.load(ONE) is first
    tiers.disk.load(TWO)
    assert tiers.disk.load(ONE) is first
    assert tiers.hot.n_bytes == 2 * SIZE
    assert (tiers.disk.n_reads, tiers.disk.n_hits) == (2, 2)
    assert tiers.disk.n_read_bytes == 2 * SIZE
    assert tiers.disk.n_bytes == 0


def test_what_is_needed_later_gives_way() -> None:
    tiers = Tiers(2 * SIZE)
    for expert, n in ((ONE, 3), (TWO, 1), (THREE, 3)):
        tiers.use.add(expert.layer, np.array([[expert.index]] * n))
        tiers.disk.load(expert)
    assert tiers.hot.resident() == (ONE, THREE)


def test_without_room_nothing_is_kept() -> None:
    tiers = Tiers(0)
    tiers.disk.load(ONE)
    tiers.disk.load(ONE)
    assert (tiers.disk.n_reads, tiers.hot.n_bytes) == (2, 0)


def test_b03_a_file_cut_short_is_an_error_that_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(POCKET.read_bytes())
    file = open_model(path)
    tiers = Tiers(1 << 20, file=file)
    tiers.disk.load(ONE)
    with path.open("r+b") as cut:
        cut.truncate(file.n_bytes // 4)
    for _ in range(2):
        with pytest.raises(ModelFileError, match=r"cut\.gguf"):
            tiers.disk.load(THREE)
    tiers.disk.load(ONE)
    assert tiers.disk.lost == {THREE}
    assert len(caplog.messages) == 1  # each shard once
    answer = tiers.disk.begin(
        tiers.work(7, DiskCall(expert=5), DiskCall(expert=6))
    ).finish()
    assert answer.lost == (5, 6)
    assert not answer.values
    assert not answer.read_bytes


def test_many_threads_share_one_bounded_set() -> None:
    tiers = Tiers(3 * SIZE)
    experts = [ExpertId(1, index) for index in range(6)]
    seen: list[int] = []

    def work(offset: int) -> None:
        for at in range(60):
            tiers.disk.load(experts[(at + offset) % 6])
            seen.append(tiers.hot.n_bytes)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(seen) <= 3 * SIZE
    assert tiers.hot.n_bytes == SIZE * len(tiers.hot.resident())
    assert tiers.disk.n_reads + tiers.disk.n_hits <= 4 * 60
    assert tiers.disk.n_bytes == 0


def test_a_read_is_timed_for_the_cost_model() -> None:
    times = iter([1.0, 1.5])
    tiers = Tiers(1 << 20, monotonic=lambda: next(times))
    tiers.disk.load(ONE)
    assert tiers.cost.disk_s(0, SIZE) == pytest.approx(0.5)


@pytest.mark.parametrize("window", [1, 2 * SIZE])
def test_a_layers_calls_are_computed_as_they_come(window: int) -> None:
    tiers = Tiers(1 << 20, window=window)
    rows = np.array([0, 2])
    calls = [DiskCall(expert=0), DiskCall(expert=5, rows=rows), DiskCall(expert=9)]
    work = tiers.work(1, *calls)
    jobs = [
        KernelCall(weights=tiers.file.weights(ExpertId(1, c.expert)), rows=c.rows)
        for c in calls
    ]
    expected = KERNEL.expert_values(jobs, work.coded, Profile.R16)
    for n_hits, n_bytes in ((0, 3 * SIZE), (3, 0)):
        answer = tiers.disk.begin(work).finish()
        assert (answer.n_hits, sum(answer.read_bytes.values())) == (n_hits, n_bytes)
        assert [answer.values[e].tobytes() for e in (0, 5, 9)] == [
            values.tobytes() for values in expected
        ]
        assert answer.lost == ()


def test_what_is_given_up_is_neither_read_nor_computed() -> None:
    tiers = Tiers(0, window=1)
    calls = [DiskCall(expert=index) for index in range(32)]
    pending = tiers.disk.begin(tiers.work(1, *calls))
    pending.abandon()
    assert tiers.disk.n_reads <= 1
    assert not pending.finish().values


def test_the_next_layers_experts_are_read_ahead_within_the_window() -> None:
    foresight = Foresight(
        {1: lambda _: np.zeros((1, 0)), 2: lambda _: np.arange(6)[None]}
    )
    tiers = Tiers(1 << 20, window=4 * SIZE, foresight=foresight)
    hidden = np.zeros((1, 256), np.float32)
    tiers.disk.foresee(1, hidden, np.array([[3]]))
    calls = [DiskCall(expert=index) for index in range(4)]
    answer = tiers.disk.begin(tiers.work(2, *calls)).finish()
    assert (answer.n_hits, len(answer.values)) == (4, 4)  # in flight or there
    n_ahead = tiers.disk.n_ahead
    assert 4 <= n_ahead <= 6  # of the window, and those for whom it became free
    tiers.disk.foresee(2, hidden, np.array([[0]]))  # the last layer
    assert tiers.disk.n_ahead <= 6


def test_with_all_in_memory_nothing_is_foreseen() -> None:
    tiers = Tiers(1 << 30, foresight=Foresight({}))
    tiers.disk.foresee(1, np.zeros((1, 256), np.float32), np.array([[3]]))
    assert tiers.disk.n_ahead == 0
