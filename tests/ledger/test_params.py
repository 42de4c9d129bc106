"""Parameters read strictly: each wrong one refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import OperationRefused
from ledger.params import Params


def test_right_parameters_are_read_once():
    params = Params(
        {
            "name": "2026-11",
            "n": 7,
            "commit": True,
            "key": "00ff",
            "rows": [{"n": 1}],
        }
    )
    assert params.text("name") == "2026-11"
    assert params.whole("n") == 7
    assert params.flag("commit") is True
    assert params.raw("key", 2) == b"\0\xff"
    (row,) = params.rows("rows", max_rows=1)
    assert row.whole("n") == 1
    row.done()
    params.done()
    assert Params({}).text("name", default="x") == "x"
    assert Params({}).whole("n", default=3) == 3
    assert Params({}).raw("key", default=b"") == b""
    assert Params({}).flag("commit") is False


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda p: p.text("x", max_chars=3), "abcd"),
        (lambda p: p.text("x"), "a\x1b[2J"),
        (lambda p: p.text("x"), 1),
        (lambda p: p.whole("x"), True),
        (lambda p: p.whole("x"), 1.0),
        (lambda p: p.whole("x"), -1),
        (lambda p: p.whole("x"), 2**63),
        (lambda p: p.flag("x"), 1),
        (lambda p: p.raw("x", 1), "zz"),
        (lambda p: p.raw("x", 1), "FF"),
        (lambda p: p.raw("x", 1), " f"),
        (lambda p: p.raw("x", 1), "ff00"),
        (lambda p: p.raw("x", max_bytes=1), "ff00"),
        (lambda p: p.rows("x", max_rows=1), [{}, {}]),
        (lambda p: p.rows("x", max_rows=1), "ab"),
        (lambda p: p.rows("x", max_rows=1), [1]),
    ],
)
def test_a_wrong_parameter_is_named(read, value):
    with pytest.raises(OperationRefused, match=r"^x is "):
        read(Params({"x": value}))


def test_what_is_missing_or_unknown_is_named():
    with pytest.raises(OperationRefused, match="x is missing"):
        Params({}).text("x")
    with pytest.raises(OperationRefused, match="commit is missing"):
        Params({}).flag("commit", default=None)
    with pytest.raises(OperationRefused, match="unknown parameters: 'y'"):
        Params({"y": 1}).done()


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text() | st.none()))
def test_nothing_but_a_refusal_comes_of_anything(given):
    params = Params(given)
    for name in list(given):
        for read in (params.text, params.whole, params.flag, params.raw):
            try:
                read(name)
            except OperationRefused:
                continue
