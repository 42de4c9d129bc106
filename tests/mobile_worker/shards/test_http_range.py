import pytest

from mobile_worker.shards.errors import SourceBroke, SourceRefused
from mobile_worker.shards.http_range import FileRange, RangeBody, check_answer

WANTED = FileRange(offset=10, n_bytes=20, total=100)
WHOLE = FileRange(offset=0, n_bytes=100, total=100)
GOOD = {"content-range": "bytes 10-29/100", "content-length": "20"}


def test_a_range_is_asked_for_uncoded() -> None:
    assert WANTED.headers() == {"Range": "bytes=10-29", "Accept-Encoding": "identity"}


@pytest.mark.parametrize(
    ("wanted", "status", "headers"),
    [
        (WANTED, 206, GOOD),
        (WANTED, 206, {"content-range": "bytes 10-29/*"}),
        (WANTED, 206, GOOD | {"content-encoding": "identity"}),
        (WHOLE, 200, {"content-length": "100"}),
        (WHOLE, 200, {}),
        (WHOLE, 206, {"content-range": "bytes 0-99/100"}),
    ],
)
def test_exactly_the_range_is_taken(wanted, status, headers) -> None:
    check_answer("host", wanted, status, headers)


@pytest.mark.parametrize(
    ("status", "headers", "says"),
    [
        (200, {"content-length": "100"}, "ignores Range"),
        (200, {}, "ignores Range"),
        (204, {}, "answers 204"),
        (304, {}, "answers 304"),
        (403, {}, "answers 403"),
        (404, {}, "answers 404"),
        (416, {}, "answers 416"),
        (206, {}, "sends '', not bytes 10-29"),
        (206, {"content-range": "bytes 0-19/100"}, "not bytes 10-29"),
        (206, {"content-range": "bytes 10-30/100"}, "not bytes 10-29"),
        (206, {"content-range": "bytes 10-29/99"}, "a file of 99 bytes"),
        (206, {"content-range": "items 10-29/100"}, "not bytes"),
        (206, {"content-range": f"bytes 10-29/{'9' * 5000}"}, "not bytes"),
        (206, GOOD | {"content-length": "21"}, "would send 21 bytes"),
        (206, GOOD | {"content-length": "-1"}, "would send -1"),
        (206, GOOD | {"content-encoding": "gzip"}, "coded as 'gzip'"),
    ],
)
def test_any_other_answer_is_refused_for_good(status, headers, says) -> None:
    with pytest.raises(SourceRefused, match=says) as caught:
        check_answer("host", WANTED, status, headers)
    assert str(caught.value).startswith("host ")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("status", "after", "retry_s"),
    [
        (503, "7", 7.0),
        (429, "99999", 60.0),
        (500, "", 0.0),
        (502, "-3", 0.0),
        (504, "Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
        (408, "9" * 4000, 0.0),
    ],
)
def test_a_busy_server_is_asked_later(status, after, retry_s) -> None:
    with pytest.raises(SourceBroke, match=str(status)) as caught:
        check_answer("host", WANTED, status, {"retry-after": after})
    assert caught.value.retry_s == retry_s


def test_a_body_is_exactly_as_long_as_asked() -> None:
    body = RangeBody("host", 5)
    assert body.take(b"abc") == b"abc"
    with pytest.raises(SourceBroke, match="2 bytes early"):
        body.end()
    body.take(b"de")
    body.end()
    with pytest.raises(SourceRefused, match="more bytes than were asked for"):
        body.take(b"f")
