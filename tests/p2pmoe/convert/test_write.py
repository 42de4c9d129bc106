"""A written file is whole or not there, and holds what was planned."""

import errno
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.convert import write
from p2pmoe.convert.carried import carried_metadata
from p2pmoe.convert.errors import ConversionFailed, TargetUnusable
from p2pmoe.convert.precision import DEFAULT_PRECISION, Precision, plan_conversion
from p2pmoe.convert.write import Target, check_target, write_model
from p2pmoe.weights.model_file import open_model
from p2pmoe.weights.parts import Part
from tests.support.mini_m3 import mini_tensors, write_mini_m3

KEEP: Precision = dict.fromkeys(Part)


def convert(
    source: Path, out: Path, precision: Precision = KEEP, *, force: bool = False
) -> list[float]:
    shares: list[float] = []
    with open_model(source) as model:
        plan = plan_conversion(model, precision)
        metadata = carried_metadata(model, plan, None, "")
        n_bytes = write_model(
            model,
            metadata,
            plan,
            Target(path=out, force=force),
            lambda _, share: shares.append(share),
        )
    assert out.stat().st_size == n_bytes
    return shares


def read_all(path: Path) -> dict[str, bytes]:
    with open_model(path) as model:
        return {name: model.read(name) for name in model.tensors}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_kept_tensors_are_bit_for_bit_the_same(tmp_path: Path) -> None:
    source = write_mini_m3(tmp_path / "m.gguf")
    shares = convert(source, tmp_path / "out.gguf")
    assert read_all(tmp_path / "out.gguf") == read_all(source)
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert shares[-1] < 1.0
    assert list(tmp_path.glob(".*")) == []


def test_changed_tensors_are_those_of_the_gguf_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "_STEP_VALUES", 512)  # many steps a tensor
    source = write_mini_m3(tmp_path / "m.gguf")
    convert(source, tmp_path / "out.gguf", DEFAULT_PRECISION)
    before = {t.name: t for t in gguf.GGUFReader(source).tensors}
    after = {t.name: t for t in gguf.GGUFReader(tmp_path / "out.gguf").tensors}
    assert list(after) == list(before)
    for name, tensor in after.items():
        assert list(tensor.shape) == list(before[name].shape)
        numbers = gguf.quants.dequantize(before[name].data, before[name].tensor_type)
        if tensor.tensor_type is before[name].tensor_type:
            assert np.array_equal(tensor.data, before[name].data)
        else:
            expected = gguf.quants.quantize(numbers, tensor.tensor_type)
            assert np.array_equal(tensor.data, expected), name
    assert after["blk.1.ffn_up_exps.weight"].tensor_type.name == "Q4_0"


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    source = write_mini_m3(tmp_path / "m.gguf")
    out = tmp_path / "out.gguf"
    out.write_bytes(b"precious")
    with pytest.raises(TargetUnusable, match="exists already") as caught:
        convert(source, out)
    assert "--force" in caught.value.advice
    assert out.read_bytes() == b"precious"
    convert(source, out, force=True)
    convert(out, out, force=True)  # onto itself
    assert read_all(out) == read_all(source)


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(TargetUnusable, match="is a folder"):
        check_target(Target(path=tmp_path))
    with pytest.raises(TargetUnusable, match="no folder"):
        check_target(Target(path=tmp_path / "absent" / "out.gguf"))
    with pytest.raises(TargetUnusable, match="no regular file"):
        check_target(Target(path=Path("/dev/null"), force=True))
    with pytest.raises(TargetUnusable, match="file name too long"):
        check_target(Target(path=tmp_path / ("x" * 300)))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(TargetUnusable, match="cannot be written"):
        check_target(Target(path=tmp_path / "loop", force=True))


def test_a_disk_with_too_little_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_mini_m3(tmp_path / "m.gguf")
    usage = SimpleNamespace(free=10)
    monkeypatch.setattr(write.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(TargetUnusable, match=r"would need \d+ bytes, its disk has 10"):
        convert(source, tmp_path / "out.gguf")
    assert not (tmp_path / "out.gguf").exists()


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = write_mini_m3(tmp_path / "m.gguf")
    monkeypatch.setattr(write.os, "fsync", full)
    with pytest.raises(TargetUnusable, match="cannot be written: no space left"):
        convert(source, tmp_path / "out.gguf")
    assert names_in(tmp_path) == ["m.gguf"]


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    source = write_mini_m3(tmp_path / "m.gguf")

    def interrupt(_: str, share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    target = Target(path=tmp_path / "out.gguf")
    with open_model(source) as model:
        plan = plan_conversion(model, KEEP)
        with pytest.raises(KeyboardInterrupt):
            write_model(model, {}, plan, target, interrupt)
    assert names_in(tmp_path) == ["m.gguf"]


def test_b13_weights_that_are_no_numbers_leave_nothing(tmp_path: Path) -> None:
    name = "blk.1.ffn_gate_inp.weight"
    bad = bytearray(mini_tensors()[name].content)
    bad[:4] = b"\0\0\xc0\x7f"
    source = write_mini_m3(tmp_path / "m.gguf", None, {name: bytes(bad)})
    with pytest.raises(ConversionFailed, match="ffn_gate_inp"):
        convert(source, tmp_path / "out.gguf", {**KEEP, Part.ROUTER: Format.F16})
    assert names_in(tmp_path) == ["m.gguf"]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "out"])
def test_a_target_is_named_as_a_gguf_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    for force in (False, True):
        with pytest.raises(TargetUnusable, match="no name of a GGUF file"):
            check_target(Target(path=tmp_path / name, force=force))


def test_a_part_of_a_set_is_never_replaced(tmp_path: Path) -> None:
    part = tmp_path / "m-00001-of-00002.gguf"
    part.touch()
    with pytest.raises(TargetUnusable, match="part of a set") as caught:
        check_target(Target(path=part, force=True))
    assert caught.value.advice.startswith("name it m.gguf")
    check_target(Target(path=tmp_path / "m-00001-of-00001.gguf"))


def test_a_link_to_nothing_exists_already(tmp_path: Path) -> None:
    link = tmp_path / "m.gguf"
    link.symlink_to("elsewhere.gguf")
    with pytest.raises(TargetUnusable, match="exists already"):
        check_target(Target(path=link))
    check_target(Target(path=link, force=True))
