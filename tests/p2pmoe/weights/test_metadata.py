from collections.abc import Callable
from pathlib import Path

import pytest

from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.metadata import Metadata

META = Metadata(
    Path("m.gguf"),
    {
        "i": 7,
        "f": 1.5,
        "nan": float("nan"),
        "b": True,
        "s": "text",
        "ss": ("a", "b"),
        "is": (1, 2),
        "fs": (1.0, 2.0),
        "bs": (True, False),
        "empty": (),
    },
)


def test_it_is_a_mapping() -> None:
    assert META["i"] == 7
    assert len(META) == 10
    assert "s" in META
    assert META.get("missing") is None


def test_typed_reads() -> None:
    assert META.integer("i") == 7
    assert META.integer("missing", 3) == 3
    assert META.real("f") == 1.5
    assert META.real("i") == 7.0
    assert META.flag("b") is True
    assert META.flag("missing", default=False) is False
    assert META.text("s") == "text"
    assert META.text("missing", "") == ""
    assert META.texts("ss") == ("a", "b")
    assert META.integers("is") == (1, 2)
    assert META.reals("fs") == (1.0, 2.0)
    assert META.flags("bs") == (True, False)
    assert META.texts("empty") == ()


@pytest.mark.parametrize(
    "read",
    [
        lambda: META.integer("missing"),
        lambda: META.integer("b"),
        lambda: META.integer("f"),
        lambda: META.integer("i", low=8),
        lambda: META.integer("i", high=6),
        lambda: META.real("nan"),
        lambda: META.real("s"),
        lambda: META.real("b"),
        lambda: META.flag("i"),
        lambda: META.text("i"),
        lambda: META.texts("s"),
        lambda: META.flags("b"),
        lambda: META.flags("is"),
        lambda: META.texts("is"),
        lambda: META.integers("ss"),
        lambda: META.integers("fs"),
        lambda: META.reals("is"),
    ],
    ids=range(17),
)
def test_anything_else_is_refused_with_file_and_key(
    read: Callable[[], object],
) -> None:
    with pytest.raises(ModelFileError, match=r"^m\.gguf, key '\w+': "):
        read()


def test_a_size_repeated_for_each_layer_is_that_size() -> None:
    meta = Metadata(Path("m.gguf"), {"same": (8, 8, 8), "mixed": (8, 4), "none": ()})
    assert meta.integer("same", low=1, high=8) == 8
    with pytest.raises(ModelFileError, match="'mixed': differs from layer to layer"):
        meta.integer("mixed")
    with pytest.raises(ModelFileError, match="'none': is no integer"):
        meta.integer("none")
