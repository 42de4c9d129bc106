"""config.json is read by type and bound; what is wrong names its key."""

from collections.abc import Callable
from pathlib import Path

import pytest

from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.config import Config, parse_config

PATH = Path("config.json")
CONFIG = Config(
    PATH,
    {
        "n": 3,
        "x": 2.5,
        "yes": True,
        "word": "silu",
        "words": ["a", "b"],
        "numbers": [1, 2],
        "reals": [1, 2.5],
        "nothing": None,
        "inner": {"n": -1, "deep": {"n": "x"}},
        "huge": 10**400,
        "list": [1, "a", None],
    },
)

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "missing": (lambda: CONFIG.integer("none"), "key 'none': is missing"),
    "null": (lambda: CONFIG.integer("nothing"), "key 'nothing': is missing"),
    "flag_as_integer": (lambda: CONFIG.integer("yes"), "'yes': True is no integer"),
    "real_as_integer": (lambda: CONFIG.integer("x"), "2.5 is no integer"),
    "text_as_integer": (lambda: CONFIG.integer("word"), "'silu' is no integer"),
    "low": (lambda: CONFIG.integer("n", low=4), "3 is not in 4..16777216"),
    "high": (lambda: CONFIG.integer("n", high=2), "3 is not in 1..2"),
    "huge": (lambda: CONFIG.integer("huge"), "a huge number is not in"),
    "huge_real": (lambda: CONFIG.real("huge"), "'huge': a huge number is not finite"),
    "flag_as_real": (lambda: CONFIG.real("yes"), "True is no number"),
    "integer_as_flag": (lambda: CONFIG.flag("n"), "3 is no boolean"),
    "list_as_text": (lambda: CONFIG.text("list"), "is no string"),
    "mixed_texts": (lambda: CONFIG.texts("list"), "is no list of strings"),
    "mixed_integers": (lambda: CONFIG.integers("list"), "is no list of integers"),
    "real_in_integers": (lambda: CONFIG.integers("reals"), "is no list of integers"),
    "mixed_reals": (lambda: CONFIG.reals("list"), "is no list of numbers"),
    "section": (lambda: CONFIG.section("n"), "'n': 3 is no object"),
    "nested": (
        lambda: CONFIG.section("inner").section("deep").integer("n"),
        "key 'inner.deep.n': 'x' is no integer",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_names_its_key(name: str) -> None:
    read, message = WRONG[name]
    with pytest.raises(ModelFileError, match=message) as caught:
        read()
    assert str(caught.value).startswith("config.json, key '")


def test_values_and_defaults() -> None:
    assert CONFIG.integer("n") == 3
    assert CONFIG.integer("none", 7) == 7
    assert CONFIG.real("x") == 2.5
    assert CONFIG.real("n") == 3.0
    assert CONFIG.flag("yes")
    assert CONFIG.text("nothing", "x") == "x"
    assert CONFIG.texts("words") == ("a", "b")
    assert CONFIG.integers("numbers") == (1, 2)
    assert CONFIG.reals("reals") == (1.0, 2.5)
    assert CONFIG.section("none").present() == ()
    assert "nothing" not in CONFIG
    assert CONFIG.section("inner").present() == ("n", "deep")


def test_what_is_asked_for_and_not_known_is_unsupported() -> None:
    CONFIG.must_be("word", "silu", "gelu")
    CONFIG.must_be("none", "silu")
    with pytest.raises(UnsupportedModel, match="key 'word': 'silu' is not supported"):
        CONFIG.must_be("word", "gelu")


def test_the_file_is_strict_json() -> None:
    assert parse_config(PATH, b'{"n": 1}').integer("n") == 1
    with pytest.raises(ModelFileError, match="duplicate key 'n'"):
        parse_config(PATH, b'{"n": 1, "n": 2}')


def test_a_long_value_is_shown_in_part() -> None:
    config = Config(PATH, {"a": "x" * 10_000, "b": [[0] * 10_000]})
    for key in ("a", "b"):
        with pytest.raises(ModelFileError) as caught:
            config.integer(key)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [1e31, -1e31])
def test_a_real_that_f32_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(ModelFileError, match="is not in"):
        Config(PATH, {"x": value}).real("x")
