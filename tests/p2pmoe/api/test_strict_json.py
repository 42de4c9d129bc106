import pytest

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.strict_json import MAX_DEPTH, parse_object


def test_an_object_is_read() -> None:
    assert parse_object('{"a": [1, 2.5, null, "é"]}'.encode()) == {
        "a": [1, 2.5, None, "é"]
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "valid JSON"),
        (b"{", "valid JSON"),
        (b"[]", "not a JSON object"),
        (b"3", "not a JSON object"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too large"),
        (b'{"a": 1, "a": 2}', "duplicate key 'a'"),
        (b'{"x": {"a": 1, "a": 2}}', "duplicate key 'a'"),
        (b'{"a": "\xff"}', "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "deeply"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "deeply"),
    ],
    ids=range(14),
)
def test_b19_anything_else_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(ApiRefusal, match=message) as caught:
        parse_object(body)
    assert caught.value.code == "invalid_json"
