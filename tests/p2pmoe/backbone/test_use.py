"""Use is measured, fades, and comes back after a restart or not at all."""

import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.use import HALF_LIFE_TOKENS, UseCounts, load_use, save_use


def routing(*experts: int) -> np.ndarray:
    return np.array([experts], np.int64)


def test_rows_count_and_older_ones_fade() -> None:
    use = UseCounts(2, 4, 1)
    assert not use.is_measured
    use.add(1, routing(0, 3))
    for _ in range(HALF_LIFE_TOKENS):
        use.add(1, routing(1, 2))
    decayed = use.decayed()
    assert decayed[1, 0] == pytest.approx(0.5, rel=0.01)
    assert decayed[1, 1] > 1000
    assert decayed[0].sum() == 0
    assert use.is_measured


def test_long_runs_keep_their_precision() -> None:
    use = UseCounts(1, 2, 1)
    block = np.zeros((HALF_LIFE_TOKENS, 1), np.int64)
    for _ in range(300):
        use.add(0, block)
    assert np.isfinite(use.decayed()).all()
    assert use.decayed()[0, 0] == pytest.approx(2 * HALF_LIFE_TOKENS / 2, rel=0.5)


def test_counts_since_the_last_report_are_plain() -> None:
    use = UseCounts(2, 4, 2)
    use.add(1, np.array([[0, 3], [1, 3]]))
    assert use.take_since() == (
        (ExpertId(1, 0), 1),
        (ExpertId(1, 1), 1),
        (ExpertId(1, 3), 2),
    )
    assert use.take_since() == ()


def test_a_file_comes_back_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "use.bin"
    use = UseCounts(2, 4, 2)
    use.add(1, routing(0, 3))
    save_use(path, use.decayed())
    loaded = load_use(path, 2, 4)
    assert loaded is not None
    fresh = UseCounts(2, 4, 2)
    fresh.restore(loaded)
    assert np.allclose(fresh.decayed(), use.decayed())
    assert load_use(path, 2, 5) is None
    assert load_use(tmp_path / "none", 2, 4) is None
    path.write_bytes(path.read_bytes()[:-1])
    assert load_use(path, 2, 4) is None
    save_use(path, np.full((2, 4), np.nan))
    assert load_use(path, 2, 4) is None
    assert not list(tmp_path.glob("*.part"))


HEAD = struct.pack("<8sII", b"PMUSE1\0\0", 2, 4)
COUNTS = np.arange(8, dtype="<f8").tobytes()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        HEAD,
        HEAD + COUNTS[:-1],
        HEAD + COUNTS + b"\0",
        HEAD.replace(b"PMUSE1", b"PMUSE2") + COUNTS,
        struct.pack("<8sII", b"PMUSE1\0\0", 4, 2) + COUNTS,
        struct.pack("<8sII", b"PMUSE1\0\0", 2**32 - 1, 2**32 - 1) + COUNTS,
        HEAD + np.full(8, -1.0).astype("<f8").tobytes(),
        HEAD + np.full(8, np.inf).astype("<f8").tobytes(),
    ],
    ids=range(9),
)
def test_a_hostile_file_is_no_record_of_use(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "use.bin"
    path.write_bytes(raw)
    assert load_use(path, 2, 4) is None
    save_use(path, np.ones((2, 4)))  # and is written over
    loaded = load_use(path, 2, 4)
    assert loaded is not None
    assert loaded.tolist() == [[1.0] * 4] * 2


def test_a_folder_in_the_files_place_is_no_record_of_use(tmp_path: Path) -> None:
    (tmp_path / "use.bin").mkdir()
    assert load_use(tmp_path / "use.bin", 2, 4) is None


def test_use_goes_on_from_what_was_restored() -> None:
    use = UseCounts(1, 2, 1)
    use.restore(np.array([[3.0, 0.0]]))
    use.add(0, routing(1))
    assert use.decayed()[0].tolist() == pytest.approx([3.0, 1.0], rel=1e-3)
    assert use.take_since() == ((ExpertId(0, 1), 1),)  # the market heard of the rest


def test_threads_lose_no_count() -> None:
    use = UseCounts(1, 4, 1)
    rows = np.tile(np.arange(4, dtype=np.int64), (50, 1))

    def work() -> None:
        for _ in range(20):
            use.add(0, rows)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [count for _, count in use.take_since()] == [4 * 20 * 50] * 4
