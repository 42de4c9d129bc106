"""Strict JSON: whatever is not exactly what it should be is named in one line."""

import pytest

from p2pmoe.evaluate.reading import (
    MAX_DEPTH,
    Misread,
    Record,
    parse_object,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        ("[1]", "no JSON object"),
        ('{"a": 1} x', "not valid JSON"),
        ('{"a": NaN}', "NaN, which is no JSON number"),
        ('{"a": 1e999}', "1e999, which is too large"),
        ('{"a": ' + "9" * 5000 + "}", "is too large"),
        ('{"a": 1, "a": 2}', "the duplicate key 'a'"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "nested too deeply"),
    ],
)
def test_what_is_no_object_is_refused(text, words):
    with pytest.raises(Misread, match=words):
        parse_object(text)


def test_each_kind_is_read_once_and_null_is_absent():
    record = Record({"t": "x", "i": 1, "n": 2, "f": True, "l": [1], "o": {}, "z": None})
    assert record.text("t", 5) == "x"
    assert record.integer("i", 0, 9) == 1
    assert record.number("n", 0, 9) == 2.0
    assert record.flag("f", default=False)
    assert record.items("l", 3) == [1]
    assert record.mapping("o") == {}
    assert record.integer("z", 0, 9, 7) == 7
    record.finish()


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda r: r.text("i", 5), "here.i must be a string"),
        (lambda r: r.text("t", 2), "here.t has 3 characters, more than 2"),
        (lambda r: r.text("none", 2), "here.none is missing"),
        (lambda r: r.integer("t", 0, 1), "here.t must be an integer"),
        (lambda r: r.integer("b", 0, 1), "here.b must be an integer"),
        (lambda r: r.integer("i", 0, 1), "here.i must be from 0 to 1, not 5"),
        (lambda r: r.number("b", 0, 1), "here.b must be a number"),
        (lambda r: r.number("i", 0, 1), "here.i must be from 0 to 1, not 5"),
        (lambda r: r.flag("i", default=False), "here.i must be true or false"),
        (lambda r: r.items("t", 1), "here.t must be an array"),
        (lambda r: r.items("l", 1), "here.l has 2 items, more than 1"),
        (lambda r: r.mapping("l"), "here.l must be an object"),
        (lambda r: r.finish(), "here.t is unknown"),
    ],
)
def test_what_is_of_another_kind_is_named(read, words):
    record = Record({"t": "abc", "i": 5, "b": True, "l": [1, 2]}, "here")
    with pytest.raises(Misread, match=words):
        read(record)


def test_no_object_is_no_record():
    with pytest.raises(Misread, match="it is no object"):
        Record([1], "it")
