from pathlib import Path

import pytest

from mobile_worker.expert_id import ExpertId
from p2pmoe.weights import look_through as looking
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.file_matrix import FileMatrix
from p2pmoe.weights.look_through import look_through
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.mini_m3 import mini_tensors, write_mini_m3

DENSE = "blk.0.ffn_down.weight"
ROUTED = "blk.1.ffn_down_exps.weight"
ALL = [ExpertId(1, index) for index in range(4)]


def opened(folder: Path, name: str = "", at: int = 0) -> tuple[ModelFile, list]:
    """Return a file that has promised its dense tensor, with one scale damaged."""
    bent = {}
    if name:
        raw = bytearray(mini_tensors()[name].content)
        raw[at : at + 2] = b"\0\x7c"
        bent = {name: bytes(raw)}
    file = open_model(write_mini_m3(folder / "m.gguf", tensors=bent))
    return file, [FileMatrix(file, file.tensor(DENSE))]


def test_nothing_is_kept_of_a_good_file(tmp_path: Path) -> None:
    file, promised = opened(tmp_path)
    assert look_through(file, ExpertFile(file), ALL)
    assert not promised[0].is_read


@pytest.mark.parametrize(("name", "reason"), [(DENSE, "row 0"), (ROUTED, "expert 1.0")])
def test_damage_is_named(tmp_path: Path, name: str, reason: str) -> None:
    file, promised = opened(tmp_path, name)
    with pytest.raises(ModelFileError, match=reason):
        look_through(file, ExpertFile(file), ALL)
    assert promised


def test_damage_in_a_later_piece_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_PIECE_BYTES", 100)
    file, promised = opened(tmp_path)
    size = file.tensor(DENSE).row_bytes
    file, promised = opened(tmp_path, DENSE, 5 * size)
    with pytest.raises(ModelFileError, match=f"tensor '{DENSE}': rows 4 to 5: row 1"):
        look_through(file, ExpertFile(file), [])
    assert promised


def test_b03_a_file_cut_short_is_found(tmp_path: Path) -> None:
    file, promised = opened(tmp_path)
    with file.path.open("r+b") as cut:
        cut.truncate(4096)
    with pytest.raises(ModelFileTruncated):
        look_through(file, ExpertFile(file), ALL)
    assert promised


def test_it_stops_when_told(tmp_path: Path) -> None:
    file, _promised = opened(tmp_path, ROUTED)
    looks = iter([True, False])
    assert not look_through(file, ExpertFile(file), ALL, lambda: next(looks))
