"""What a request for a blob asks for, whatever it says, and what its answer says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.blob_requests import (
    BlobSpan,
    blob_headers,
    blob_name,
    not_modified,
    span,
)

NAME = "0123456789abcdef" * 4


def test_a_path_names_a_hash_or_nothing() -> None:
    assert blob_name(f"/blob/{NAME}") == NAME
    for path in ("/blob/", "/blob/x", f"/blob/{NAME.upper()}", f"/blob/{NAME}/", NAME):
        assert blob_name(path) is None
    assert blob_name(f"/blob/../{NAME}") is None  # B06
    assert blob_name(f"/blob/{NAME}\n") is None


@pytest.mark.parametrize(
    ("asked", "status", "first", "n_bytes"),
    [
        ("", 200, 0, 100),
        ("bytes=0-99", 206, 0, 100),
        ("bytes=10-19", 206, 10, 10),
        ("bytes=90-", 206, 90, 10),
        ("bytes=-7", 206, 93, 7),
        ("bytes=-1000", 206, 0, 100),
        ("bytes=50-1000", 206, 50, 50),
        ("bytes=100-", 416, 0, 0),
        ("bytes=100-200", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
        ("bytes=20-10", 200, 0, 100),
        ("bytes=-", 200, 0, 100),
        ("bytes=0-1,5-6", 200, 0, 100),
        ("lines=1-2", 200, 0, 100),
        ("bytes=1-" + "9" * 30, 200, 0, 100),
    ],
)
def test_a_range_is_answered_as_rfc_9110_says(
    asked: str, status: int, first: int, n_bytes: int
) -> None:
    wanted = span({"range": asked}, 100)
    assert wanted == BlobSpan(status=status, first=first, n_bytes=n_bytes)


@given(st.text(max_size=40), st.integers(0, 1000))
def test_whatever_is_asked_the_answer_lies_within_the_file(
    asked: str, total: int
) -> None:
    wanted = span({"range": asked}, total)
    assert 0 <= wanted.first <= wanted.first + wanted.n_bytes <= total
    blob_headers(NAME, wanted, total)


def test_an_answer_may_be_kept_for_ever() -> None:
    part = blob_headers(NAME, BlobSpan(status=206, first=3, n_bytes=4), 100)
    assert part["Content-Range"] == "bytes 3-6/100"
    assert "immutable" in part["Cache-Control"]
    beyond = blob_headers(NAME, BlobSpan(status=416), 100)
    assert beyond == {"Content-Range": "bytes */100"}


def test_who_has_it_is_not_sent_it() -> None:
    assert not_modified({"if-none-match": f'"x", W/"{NAME}"'}, NAME)
    assert not_modified({"if-none-match": "*"}, NAME)
    assert not not_modified({"if-none-match": '"x"'}, NAME)
    assert not not_modified({}, NAME)
