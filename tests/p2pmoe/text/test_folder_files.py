import os
from pathlib import Path

import pytest

from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.folder_files import JsonObject, read_beside, read_json

NAME = "x.json"


def read(folder: Path, content: bytes, max_bytes: int) -> JsonObject | None:
    (folder / NAME).write_bytes(content)
    return read_json(folder, NAME, max_bytes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1, "a": 2}', "duplicate key 'a'"),
        (b'{"a": NaN}', "holds NaN"),
        (b"[1]", "not an object"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": ', "is not valid JSON"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"{}" + b" " * 1_000_000, "more than"),
    ],
    ids=range(8),
)
def test_what_is_not_strict_is_refused(
    content: bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TokenizerError, match=message):
        read(tmp_path, content, 600_000)


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_json(tmp_path, NAME, 10) is None
    assert read_beside(tmp_path, NAME, 10) is None
    assert read_beside(tmp_path / "missing", NAME, 10) is None


def test_a_plain_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"12345")
    assert read_beside(tmp_path, NAME, 5) == b"12345"
    with pytest.raises(TokenizerError, match="5 bytes, more than 4"):
        read_beside(tmp_path, NAME, 4)


def test_what_is_no_file_of_the_folder_is_never_opened(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    os.mkfifo(folder / "pipe")
    (folder / "out").symlink_to("/dev/zero")
    for name, reason in (
        ("folder", "is no regular file"),
        ("pipe", "is no regular file"),
        ("out", "leads out of the folder"),
    ):
        with pytest.raises(TokenizerError, match=reason):
            read_beside(folder, name, 1 << 20)


def test_fields_are_typed(tmp_path: Path) -> None:
    content = b'{"n": 1, "f": true, "o": {"t": "x"}, "l": [{}], "z": null}'
    found = read(tmp_path, content, 100)
    assert found is not None
    assert found.of_type("n", int) == 1
    assert found.of_type("z", int, 7) == 7
    assert "z" not in found
    assert found.child("o").of_type("t", str) == "x"
    assert len(found.children("l")) == 1
    assert found.children("z") == []
    for name, kind in (("f", int), ("n", str), ("z", int), ("missing", dict)):
        with pytest.raises(TokenizerError, match=f"'{name}' is"):
            found.of_type(name, kind)


def test_places_are_named() -> None:
    inner = JsonObject("f.json", {"a": [{"b": 1}]}).children("a")[0]
    with pytest.raises(TokenizerError, match=r"f\.json a 0: 'b' is no str"):
        inner.of_type("b", str)
    with pytest.raises(TokenizerError, match="no list of objects"):
        JsonObject("f.json", {"a": [1]}).children("a")
