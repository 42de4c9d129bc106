import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.network.acme.responder import answer_to, respond
from relay.errors import ListenError
from tests.support.raw_clients import until
from tests.support.trio_test import trio_test

ANSWERS = {"token-1": "token-1.print"}


def head(path: str, host: str = "relay.example", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nAccept: */*\r\nHost: {host}\r\n\r\n".encode()


def test_the_authoritys_question_is_answered() -> None:
    answer = answer_to(head("/.well-known/acme-challenge/token-1"), ANSWERS)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\ntoken-1.print")


@pytest.mark.parametrize("path", ["token-2", "", "../token-1", "token-1/", "TOKEN-1"])
def test_what_was_not_asked_for_is_not_there(path: str) -> None:
    answer = answer_to(head(f"/.well-known/acme-challenge/{path}"), ANSWERS)
    assert answer.startswith(b"HTTP/1.1 404 ")


def test_anything_else_is_sent_to_https() -> None:
    answer = answer_to(head("/relay?x=1", "Relay.Example:80"), ANSWERS)
    assert b"301 " in answer
    assert b"Location: https://relay.example/relay?x=1\r\n" in answer


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\n\r\n",
        head("/", method="POST"),
        head("http://evil/"),
        head("/", "a b"),
        head("/", "evil\nx: y"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /a\nb HTTP/1.1\r\nHost: a.b\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(raw: bytes) -> None:
    assert answer_to(raw, ANSWERS).startswith(b"HTTP/1.1 400 ")


@given(raw=st.binary(max_size=300))
def test_no_bytes_can_add_a_header_or_raise(raw: bytes) -> None:
    answer = answer_to(raw + b"\r\n\r\n", ANSWERS)
    assert answer.count(b"\r\n\r\n") == 1
    assert answer.split(b"\r\n\r\n")[0].count(b"\r\n") <= 4


@trio_test
async def test_it_listens_answers_and_lets_go_of_the_rude() -> None:
    async with trio.open_nursery() as nursery:
        port = await nursery.start(respond, "127.0.0.1", 0, ANSWERS)
        for asked, found in (
            (head("/.well-known/acme-challenge/token-1"), b"token-1.print"),
            (b"GET /" + b"x" * 5000, b""),
        ):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(asked)
                try:
                    seen = await until(stream, b"never")
                except trio.BrokenResourceError:  # reset, with bytes unread
                    seen = b""
                assert seen.endswith(found)
                assert bool(seen) == bool(found)
        with pytest.raises(ListenError, match="already in use"):
            await respond("127.0.0.1", port, ANSWERS)
        nursery.cancel_scope.cancel()
