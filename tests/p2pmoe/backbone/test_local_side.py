"""What is on this machine: measured at the first start, recalled at the next."""

from pathlib import Path

import pytest

from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.errors import ConfigurationError, RamTooSmall
from tests.support.backbone_model import POCKET, model_of

RAM = 75_500_000  # room for a third of the experts
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
    import numpy as np

    for _ in range(50):
        local.use.add(cold.layer, np.full((64, 1), cold.index))
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
