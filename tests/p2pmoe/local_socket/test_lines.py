"""Lines of control sockets: what is packed comes back, anything else is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.local_socket.lines import pack_line, read_line
from p2pmoe.strict_json import NotStrict

FIELDS = st.dictionaries(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1))


@given(FIELDS)
def test_fields_come_back(fields: dict[str, int]) -> None:
    line = pack_line({"params": fields})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert read_line(line, len(line)) == {"version": 1, "params": fields}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "does not end"),
        (b'{"version": 1}', "does not end"),
        (b'{"version": 1, "a": "long"}\n', "has 28 bytes"),
        (b'{"version": 2}\n', "not of version 1"),
        (b"[]\n", "not of version 1"),
        (b"\xff\n", "not UTF-8"),
        (b"{\n", "no.* valid JSON"),
        (b"[" * 13 + b"]" * 13 + b"\n", "nested"),
    ],
)
def test_what_is_no_line_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(NotStrict, match=why):
        read_line(line, 27)


@given(st.binary(max_size=60))
def test_no_bytes_do_more(noise: bytes) -> None:
    with pytest.raises(NotStrict):
        read_line(noise + b"\n", 100)
