from collections.abc import Callable

import pytest

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.fields import Fields


def fields() -> Fields:
    return Fields(
        {
            "i": 3,
            "f": 0.5,
            "whole": 1000.0,
            "b": True,
            "t": "x",
            "l": [1, 2],
            "none": None,
            "n": 2,
        },
        "body",
    )


def test_typed_reads() -> None:
    some = fields()
    assert some.integer("i", 1, 5) == 3
    assert some.number("f", 0, 1) == 0.5
    assert some.flag("b") is True
    assert some.flag("absent") is False
    assert some.text("t") == "x"
    assert some.items("l", 2) == [1, 2]
    assert some.integer("none", 0, 1) is None
    assert some.number("absent", 0, 1) is None


@pytest.mark.parametrize(
    ("read", "param"),
    [
        (lambda f: f.integer("i", 4, 5), "body.i"),
        (lambda f: f.integer("i", 0, 2), "body.i"),
        (lambda f: f.integer("whole", 0, 5000), "body.whole"),
        (lambda f: f.integer("b", 0, 5), "body.b"),
        (lambda f: f.integer("t", 0, 5), "body.t"),
        (lambda f: f.number("f", 1, 2), "body.f"),
        (lambda f: f.number("b", 0, 2), "body.b"),
        (lambda f: f.flag("i"), "body.i"),
        (lambda f: f.text("i"), "body.i"),
        (lambda f: f.items("l", 1), "body.l"),
        (lambda f: f.items("t", 1), "body.t"),
        (lambda f: f.unsupported({"n": (1,)}), "body.n"),
        (lambda f: f.unsupported({"b": (1,)}), "body.b"),
        (lambda f: f.finish(), "body.i"),
    ],
    ids=range(14),
)
def test_b19_what_is_wrong_is_named(
    read: Callable[[Fields], object], param: str
) -> None:
    with pytest.raises(ApiRefusal) as caught:
        read(fields())
    assert caught.value.param == param
    assert caught.value.status == 400


def test_what_asks_for_nothing_passes() -> None:
    some = fields()
    some.unsupported({"n": (1, 2), "absent": ()})
    some.ignore(["i", "f", "whole", "b", "t", "l"])
    some.finish()


def test_no_object_is_refused() -> None:
    with pytest.raises(ApiRefusal, match="is no object"):
        Fields([], "messages[0]")
