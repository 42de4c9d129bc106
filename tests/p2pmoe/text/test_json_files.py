from pathlib import Path

import pytest

from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.json_files import JsonObject, read_json


def written(folder: Path, content: bytes) -> Path:
    path = folder / "x.json"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1, "a": 2}', "duplicate name a"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b"[1]", "not an object"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": ', "is no JSON"),
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
        read_json(written(tmp_path, content), max_bytes=600_000)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert read_json(tmp_path / "missing.json", 10) is None
    with pytest.raises(TokenizerError, match="cannot be read"):
        read_json(tmp_path, 1 << 20)


def test_fields_are_typed(tmp_path: Path) -> None:
    path = written(
        tmp_path, b'{"n": 1, "f": true, "o": {"t": "x"}, "l": [{}], "z": null}'
    )
    found = read_json(path, 100)
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
