"""What is on this machine: measured at the first start, recalled at the next."""

from pathlib import Path

import numpy as np
import pytest

from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.errors import ConfigurationError, RamTooSmall
from p2pmoe.weights.model_file import open_model
from tests.support.backbone_model import POCKET, model_of

RAM = 53_000_000  # room for a third of the experts
TOKENS = list(range(10, 40))


def side(folder: Path, **changes: object) -> LocalSide:
    return LocalSide(
        model_of(POCKET), LocalOptions(data=folder, ram_bytes=RAM, **changes)
    )


def test_a_first_start_measures_and_a_second_recalls(tmp_path: Path) -> None:
    first = side(tmp_path)
    first.warm_up(TOKENS)
    assert first.use.is_measured
    assert 70 <= len(first.hot.resident()) <= 80
    assert first.hot.n_bytes <= first.hot.budget_bytes
    hottest = first.use.decayed()[1].argmax()
    assert int(hottest) in first.hot.layer(1)
    first.save()
    second = side(tmp_path)
    second.warm_up([])
    assert second.hot.resident() == first.hot.resident()
    assert second.disk.n_reads == 0


def test_with_room_for_all_nothing_needs_measuring(tmp_path: Path) -> None:
    everything = LocalSide(model_of(POCKET), LocalOptions(data=tmp_path))
    everything.warm_up(TOKENS)
    assert len(everything.hot.resident()) == 224
    assert not everything.use.is_measured
    assert not everything.rebalance()
    everything.save()
    assert not list(tmp_path.iterdir())


def test_rebalancing_follows_use(tmp_path: Path) -> None:
    local = side(tmp_path)
    local.warm_up(TOKENS)
    cold = min(set(local.all_experts()) - set(local.hot.resident()))
    for _ in range(50):
        local.use.add(cold.layer, np.full((64, 1), cold.index))
    assert not local.rebalance(keep=local.hot.resident())
    assert cold not in local.hot.resident()
    assert local.rebalance()
    assert cold in local.hot.resident()


def test_options_that_cannot_work_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--context 4096"):
        side(tmp_path, n_context=4096)
    with pytest.raises(RamTooSmall):
        LocalSide(model_of(POCKET), LocalOptions(data=tmp_path, ram_bytes=1 << 20))


def test_a_folder_that_cannot_be_written_costs_only_the_record(tmp_path: Path) -> None:
    local = side(tmp_path / "missing")
    local.warm_up(TOKENS)
    local.save()


def test_b03_a_file_cut_short_ends_neither_rebalancing_nor_what_is_resident(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(POCKET.read_bytes())
    file = open_model(path)
    local = LocalSide(file, LocalOptions(data=tmp_path, ram_bytes=RAM))
    local.hot.fill(local.use.decayed())
    resident = local.hot.resident()
    last = max(local.all_experts())
    assert last not in resident
    with path.open("r+b") as cut:
        cut.truncate(1 << 20)
    for _ in range(50):
        local.use.add(last.layer, np.full((64, 1), last.index))
    for _ in range(10):
        assert not local.rebalance()
    assert last not in local.hot.resident()
    assert len(resident) - 16 <= len(local.hot.resident()) <= len(resident)
    assert local.hot.n_bytes <= local.hot.budget_bytes


def test_a_corrupt_record_of_use_is_measured_again(tmp_path: Path) -> None:
    first = side(tmp_path)
    first.warm_up(TOKENS)
    first.save()
    (record,) = tmp_path.glob("use-*.bin")
    record.write_bytes(b"\xff" * record.stat().st_size)
    second = side(tmp_path)
    second.warm_up(TOKENS)
    assert second.use.is_measured
    assert second.hot.resident() == first.hot.resident()
