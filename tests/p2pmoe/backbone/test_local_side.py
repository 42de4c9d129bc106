"""What is on this machine: measured at the first start, recalled at the next."""

from pathlib import Path

import numpy as np
import pytest

from p2pmoe.backbone import local_side
from p2pmoe.backbone.local_side import MEASURED_TOKENS, LocalOptions, LocalSide
from p2pmoe.config import DiskAccess, DiskPolicy
from p2pmoe.errors import ConfigurationError, RamTooSmall
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import open_model
from tests.support.backbone_model import POCKET, model_of

RAM = 41_300_000  # room for a third of the experts
TOKENS = list(range(10, 40))


def side(folder: Path, **changes: object) -> LocalSide:
    return LocalSide(
        model_of(POCKET), LocalOptions(data=folder, ram_bytes=RAM, **changes)
    )


def filled(folder: Path) -> LocalSide:
    local = side(folder)
    local.warm_up(TOKENS, in_network=True)
    local.fill()
    return local


def test_in_a_network_use_is_measured_at_first_and_recalled_then(
    tmp_path: Path,
) -> None:
    first = side(tmp_path)
    first.warm_up(TOKENS, in_network=True)
    assert first.use.is_measured
    aimed = first.hot.at_hand()
    assert 65 <= len(aimed) <= 80
    hottest = first.use.decayed()[1].argmax()
    assert int(hottest) in first.hot.layers()[1]
    first.fill()
    assert first.hot.resident() == aimed
    assert first.hot.n_bytes <= first.hot.budget_bytes
    first.save()
    second = side(tmp_path)
    second.warm_up([], in_network=True)
    assert second.knows_use
    assert second.hot.at_hand() == aimed
    assert second.disk.n_reads == 0


def test_in_a_network_whole_layers_are_at_hand_to_save_trips(tmp_path: Path) -> None:
    half = RAM + 2_600_000
    local = LocalSide(model_of(POCKET), LocalOptions(data=tmp_path, ram_bytes=half))
    local.warm_up(TOKENS, in_network=True)
    local.fill()
    whole = local.placement.whole
    assert whole
    assert [len(local.hot.layer(layer)) for layer in whole] == [32] * len(whole)
    assert not local.rebalance()  # it stays
    disk = side(tmp_path, policy=DiskPolicy.TIER)
    disk.warm_up(TOKENS, in_network=True)  # whose reads are no trips
    assert disk.placement.whole is None
    assert {len(own) for own in disk.hot.layers().values()} != {32}


def test_without_a_network_use_is_measured_by_requests(tmp_path: Path) -> None:
    local = side(tmp_path)
    local.warm_up(TOKENS)
    assert not local.knows_use
    assert not local.use.is_measured
    assert local.hot.at_hand() == ()
    for layer in local.model.description.moe_layers:
        local.use.add(layer, np.full((2 * MEASURED_TOKENS, 4), 3))
    assert local.knows_use
    local.fill()
    assert all(3 in local.hot.layer(layer) for layer in range(1, 8))


def test_without_a_disk_tier_the_hot_set_is_read_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    local = side(tmp_path, policy=DiskPolicy.OFF)
    local.warm_up(TOKENS, in_network=True)
    assert local.hot.resident() == local.hot.at_hand() != ()


def test_a_small_model_is_read_whole_and_a_large_one_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = open_model(POCKET)
    small = LocalSide(file, LocalOptions(data=tmp_path))
    small.warm_up(TOKENS)
    assert len(small.hot.resident()) == 224
    monkeypatch.setattr(local_side, "SMALL_BYTES", 1 << 20)
    other = open_model(POCKET)
    large = LocalSide(other, LocalOptions(data=tmp_path))
    large.warm_up(TOKENS)
    assert large.hot.resident() == ()
    assert len(large.hot.at_hand()) == 224
    assert len(other.unread()) > 40
    large.read_base()
    assert other.unread() == []


def test_looking_through_finds_damage_and_stops_when_told(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    raw = bytearray(POCKET.read_bytes())
    offset = model_of(POCKET).tensor("blk.3.ffn_up_exps.weight").offset
    raw[offset : offset + 2] = b"\0\x7c"
    path.write_bytes(raw)
    local = LocalSide(open_model(path), LocalOptions(data=tmp_path))
    looks = iter([True] * 50 + [False])
    assert not local.look_through(lambda: next(looks))
    with pytest.raises(ModelFileError, match=r"up of expert 3\.0: row 0"):
        local.look_through()
    local.fill_behind(lambda: True)  # told, not raised: requests are running
    assert 0 < len(local.hot.resident()) < 224
    assert not local.rebalance()


def test_with_room_for_all_nothing_needs_measuring(tmp_path: Path) -> None:
    everything = LocalSide(model_of(POCKET), LocalOptions(data=tmp_path))
    everything.warm_up(TOKENS)
    assert len(everything.hot.resident()) == 224
    assert not everything.use.is_measured
    assert not everything.rebalance()
    everything.save()
    assert not list(tmp_path.iterdir())


def test_what_is_at_hand_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="p2pmoe.backbone")
    local = LocalSide(model_of(POCKET), LocalOptions(data=tmp_path))
    for _ in range(2):
        local.fill()
    assert caplog.text.count("224 of 224 experts are in memory here") == 1


def test_rebalancing_follows_use(tmp_path: Path) -> None:
    local = filled(tmp_path)
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


def test_b03_it_says_what_can_no_longer_be_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(POCKET.read_bytes())
    part, whole = (
        LocalSide(open_model(path), LocalOptions(data=tmp_path, ram_bytes=ram))
        for ram in (RAM, None)
    )
    whole.read_base()
    whole.fill()
    assert part.damage() == whole.damage() == ""
    lost = max(part.all_experts())
    part.disk.lost.add(lost)
    assert part.damage() == "the model file has lost 1 of 224 experts"
    whole.disk.lost.add(lost)
    assert whole.damage() == ""  # it came back, and is in memory
    with path.open("r+b") as cut:
        cut.truncate(1 << 20)
    assert part.damage() == "the model file was written to since it was opened"
    assert whole.damage() == ""


def test_a_corrupt_record_of_use_is_measured_again(tmp_path: Path) -> None:
    first = filled(tmp_path)
    first.save()
    (record,) = tmp_path.glob("use-*.bin")
    record.write_bytes(b"\xff" * record.stat().st_size)
    second = filled(tmp_path)
    assert second.use.is_measured
    assert second.hot.resident() == first.hot.resident()


def test_memory_is_chosen_where_calls_do_not_fill_it(tmp_path: Path) -> None:
    alone = side(tmp_path)
    alone.fill()
    assert not alone.rebalance()
    mapped = side(tmp_path, disk_access=DiskAccess.MMAP)
    try:
        mapped.fill()
        cold = min(set(mapped.all_experts()) - set(mapped.hot.resident()))
        for _ in range(50):
            mapped.use.add(cold.layer, np.full((64, 1), cold.index))
        assert mapped.rebalance()
        assert cold in mapped.hot.resident()
    finally:
        mapped.close()
