"""Several requests over one connection, where the answer allows it."""

import trio

from relay.pages import PageRequest, PageResponse
from tests.support.relays import plain_config, running_relay
from tests.support.trio_test import trio_test

GET = b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n"


async def kept(request: PageRequest) -> PageResponse:
    return PageResponse(body=request.path.encode(), keep_alive=True)


async def one(_request: PageRequest) -> PageResponse:
    return PageResponse(body=b"one")


async def told(port: int, *requests: bytes) -> list[bytes]:
    """Send requests one after the other; what comes back of each, until the end."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    answers = []
    async with stream:
        for request in requests:
            await stream.send_all(request)
            with trio.fail_after(60):
                answer = await stream.receive_some(10_000)
            if not answer:
                break
            answers.append(answer)
    return answers


@trio_test
async def test_an_answer_that_allows_it_keeps_the_connection() -> None:
    async with running_relay(plain_config(), pages={"/k/": kept, "/one": one}) as relay:
        ask = [GET % (path, b"") for path in (b"/k/1", b"/k/2", b"/one", b"/k/3")]
        answers = await told(relay.port, *ask)
        assert [a.rpartition(b"\r\n")[2] for a in answers] == [b"/k/1", b"/k/2", b"one"]
        assert b"Connection: keep-alive" in answers[0]
        assert b"Connection: close" in answers[2]
        assert relay.counters.refused.total() == 0


@trio_test
async def test_a_client_or_a_front_ends_it_after_one() -> None:
    async with running_relay(plain_config(), pages={"/k/": kept}) as relay:
        for header in (b"Connection: close\r\n", b"X-Forwarded-For: 192.0.2.1\r\n"):
            answers = await told(relay.port, *[GET % (b"/k/1", header)] * 2)
            assert len(answers) == 1
            assert b"Connection: close" in answers[0]


@trio_test
async def test_what_follows_and_is_no_request_ends_it() -> None:
    async with running_relay(plain_config(), pages={"/k/": kept}) as relay:
        answers = await told(relay.port, GET % (b"/k/1", b""), b"\x00\x01\r\n\r\n")
        assert len(answers) == 1
        answers = await told(relay.port, *[GET % (b"/k/1", b"")] * 2)
        assert len(answers) == 2  # others are served on
