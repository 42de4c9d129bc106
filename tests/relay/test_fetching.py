"""Fetching a page of a relay: what is asked, and every answer that may come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import ProtocolError
from relay.fetching import Answer, Asked, fetch_page, parse_page
from relay.pages import PageRequest, PageResponse
from tests.support.relays import running_relay, tls_config
from tests.support.trio_test import trio_test

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: y\r\n\r\n"


@trio_test
async def test_a_page_is_asked_for_with_query_and_headers() -> None:
    got: list[PageRequest] = []

    async def page(request: PageRequest) -> PageResponse:
        got.append(request)
        return PageResponse(status=401, body=b"who?")

    async with running_relay(tls_config(), pages={"/ledger/": page}) as relay:
        asked = Asked(
            path="/ledger/own?from=1",
            name="ledger",
            max_bytes=100,
            headers={"Authorization": "Bearer x"},
        )
        answer = await fetch_page(relay.endpoint("127.0.0.1"), asked)
    assert answer == Answer(401, b"who?")
    assert (got[0].path, got[0].query) == ("/ledger/own", "from=1")
    assert got[0].headers["authorization"] == "Bearer x"


@pytest.mark.parametrize("path", ["", "map", "/a b", "/a\r\nX: y", "/\u00e9"])
def test_what_would_be_another_request_is_none(path: str) -> None:
    with pytest.raises(ValueError, match="no "):
        Asked(path=path, name="page", max_bytes=1)
    with pytest.raises(ValueError, match="no request"):
        Asked(path="/", name="page", max_bytes=1, headers={"X": f"{path}\n"})


def test_an_answer_is_taken_apart() -> None:
    assert parse_page(OK + b"abc", "map") == Answer(200, b"abc")
    refused = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"
    assert parse_page(refused, "map") == Answer(404, b"no")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        OK,
        OK + b"ab",
        OK + b"abcd",
        OK.replace(b" 3", b" -3") + b"abc",
        OK.replace(b" 3", b" 33333333333333") + b"abc",
        OK.replace(b"Content-Length: 3", b"Transfer-Encoding: chunked") + b"abc",
        OK.replace(b"200", b"20") + b"abc",
        OK.replace(b"200", b"two") + b"abc",
        OK.replace(b"HTTP", b"ICY") + b"abc",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 9000 + b"\r\n\r\n",
    ],
)
def test_other_answers_are_refused(answer: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_page(answer, "map")


@given(st.binary(max_size=200))
def test_noise_ends_in_one_error(noise: bytes) -> None:
    for answer in (noise, OK + noise, b"HTTP/1.1 200 " + noise):
        try:
            parse_page(answer, "map")
        except ProtocolError:
            continue
