"""Reading ranges from servers that keep to the rules, and from those that do not.

Servers are functions of a request, handed to httpx; time jumps.
"""

import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count, pairwise

import httpx
import pytest
import trio

from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.http_source import (
    HttpSettings,
    HttpSource,
    open_client,
    read_small,
)
from mobile_worker.shards.model_files import ModelFilePart
from tests.support.trio_test import trio_test

FIRST, SECOND = bytes(range(256)) * 1000, b"second" * 500
A, B = "https://a.example/m", "https://b.example/m"
Answer = Callable[[httpx.Request], Awaitable[httpx.Response]]


class Body(httpx.AsyncByteStream):
    """Chunks, with what is to happen between them."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks


def asked(request: httpx.Request) -> tuple[int, int]:
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers["range"])
    assert match
    return int(match[1]), int(match[2]) + 1


async def once(content: bytes) -> AsyncIterator[bytes]:
    yield content
    await trio.lowlevel.checkpoint()


def partial(
    request: httpx.Request, file: bytes, body=None, **headers
) -> httpx.Response:
    first, end = asked(request)
    told = {"content-range": f"bytes {first}-{end - 1}/{len(file)}"} | headers
    told = {name.replace("_", "-"): value for name, value in told.items()}
    body = once(file[first:end]) if body is None else body
    return httpx.Response(206, headers=told, stream=Body(body))


async def good(request: httpx.Request) -> httpx.Response:
    return partial(request, FIRST if request.url.path == "/m" else SECOND)


def source_of(
    answer: Answer, *urls: str, settings: HttpSettings | None = None
) -> HttpSource:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    files = [
        ModelFilePart(n_bytes=len(FIRST), urls=urls or (A,)),
        ModelFilePart(n_bytes=len(SECOND), urls=("https://a.example/second",)),
    ]
    return HttpSource(client, files, settings)


async def got(source: HttpSource, offset: int, n_bytes: int) -> bytes:
    found = bytearray()
    await source.read(offset, n_bytes, found.extend)
    return bytes(found)


@trio_test(autojump=True)
async def test_ranges_run_over_the_borders_of_files() -> None:
    source = source_of(good)
    whole = FIRST + SECOND
    spans = [(0, 10), (len(FIRST) - 5, 10), (0, len(whole)), (len(whole) - 1, 1)]
    for offset, n_bytes in spans:
        assert await got(source, offset, n_bytes) == whole[offset : offset + n_bytes]
    assert source.n_bytes == sum(n_bytes for _, n_bytes in spans)


@trio_test(autojump=True)
async def test_after_a_break_the_rest_is_asked_of_the_next_mirror() -> None:
    seen: list[tuple[str, int]] = []

    async def breaks(request: httpx.Request) -> httpx.Response:
        first, end = asked(request)
        seen.append((request.url.host, first))

        async def some() -> AsyncIterator[bytes]:
            yield FIRST[first : min(end, first + 100_000)]
            if end > first + 100_000:
                raise httpx.ReadError("reset")

        return partial(request, FIRST, some())

    source = source_of(breaks, A, B)
    assert await got(source, 0, len(FIRST)) == FIRST
    assert seen == [("a.example", 0), ("b.example", 100_000), ("a.example", 200_000)]


async def endless(request: httpx.Request) -> httpx.Response:
    async def zeros() -> AsyncIterator[bytes]:
        while True:
            yield bytes(4096)
            await trio.lowlevel.checkpoint()

    return partial(request, FIRST, zeros())


async def short(request: httpx.Request) -> httpx.Response:
    async def little() -> AsyncIterator[bytes]:
        yield b"x"

    return partial(request, FIRST, little())


async def gzipped(request: httpx.Request) -> httpx.Response:
    return partial(request, FIRST, content_encoding="gzip")


async def whole(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=Body(once(FIRST)))


async def another_range(request: httpx.Request) -> httpx.Response:
    return partial(request, FIRST, content_range=f"bytes 1-10/{len(FIRST)}")


async def loop(request: httpx.Request) -> httpx.Response:
    return httpx.Response(302, headers={"location": str(request.url)})


async def inwards(request: httpx.Request) -> httpx.Response:
    return httpx.Response(302, headers={"location": "http://127.0.0.1:22/"})


async def drip(request: httpx.Request) -> httpx.Response:
    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await trio.sleep(10)

    return partial(request, FIRST, drops())


async def drips(request: httpx.Request) -> httpx.Response:
    request.headers["range"] = "bytes=0-9"
    return httpx.Response(200, stream=(await drip(request)).stream)


async def silent(request: httpx.Request) -> httpx.Response:
    await trio.sleep_forever()
    raise AssertionError


async def refuses(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("Connection refused")


async def missing(request: httpx.Request) -> httpx.Response:
    return httpx.Response(404)


BAD = {
    "more bytes than were asked for": endless,
    "ended": short,
    "coded as 'gzip'": gzipped,
    "ignores Range": whole,
    "not bytes 0-": another_range,
    "from one address to the next": loop,
    "leads to an address that is not asked": inwards,
    "took longer than": drip,
    "longer than": silent,
    "connection refused": refuses,
    "answers 404": missing,
}


@pytest.mark.parametrize("says", BAD)
@trio_test(autojump=True)
async def test_a_strange_server_ends_with_one_line(says: str) -> None:
    with trio.fail_after(3600), pytest.raises(ShardUnavailable, match=says) as caught:
        await got(source_of(BAD[says]), 0, 100_000)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("says", BAD)
@trio_test(autojump=True)
async def test_a_good_mirror_makes_up_for_a_strange_server(says: str) -> None:
    async def both(request: httpx.Request) -> httpx.Response:
        return await (good if request.url.host == "b.example" else BAD[says])(request)

    source = source_of(both, A, B)
    found = bytearray()
    with trio.fail_after(3600):
        await source.read(0, 100_000, found.extend)
    if says in ("more bytes than were asked for", "ended", "took longer than"):
        assert found[-1000:] == FIRST[99_000:100_000]  # a hash tells about the rest
    else:
        assert found == FIRST[:100_000]
    assert len(found) == 100_000


@trio_test(autojump=True)
async def test_who_refused_is_not_asked_again_and_who_lied_is_asked_last() -> None:
    seen: list[str] = []

    async def note(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return await (missing if request.url.host == "a.example" else good)(request)

    source, c = source_of(note, A, B, "https://c.example/m"), "https://c.example/m"
    assert await source.read(0, 1, bytearray().extend) == {B}
    await got(source, 0, 1)
    source.blame({B})
    assert await source.read(0, 1, bytearray().extend) == {c}
    source.blame({c})
    await got(source, 0, 1)
    assert [host[0] for host in seen] == ["a", "b", "b", "c", "b"]


@trio_test(autojump=True)
async def test_if_all_have_refused_the_next_reader_asks_again() -> None:
    answers = iter([missing, missing, good])

    async def later(request: httpx.Request) -> httpx.Response:
        return await next(answers)(request)

    source = source_of(later, A, B)
    with pytest.raises(ShardUnavailable, match=r"a\.example.* 404; b\.example.* 404"):
        await got(source, 0, 3)
    assert await got(source, 0, 3) == FIRST[:3]


@trio_test(autojump=True)
async def test_pauses_grow_and_a_busy_server_names_its_own() -> None:
    starts: list[float] = []

    async def busy(request: httpx.Request) -> httpx.Response:
        starts.append(trio.current_time())
        after = {"retry-after": "20"} if len(starts) == 2 else {}
        return httpx.Response(503, headers=after)

    with pytest.raises(ShardUnavailable, match=r"503 \(tried 6 times"):
        await got(source_of(busy), 0, 1)
    pauses = [round(b - a, 3) for a, b in pairwise(starts)]
    assert pauses == [0.5, 20.0, 2.0, 4.0, 8.0]


@trio_test(autojump=True)
async def test_redirects_are_followed_with_the_range() -> None:
    async def leads(request: httpx.Request) -> httpx.Response:
        if request.url.host == "a.example":
            return httpx.Response(307, headers={"location": B})
        return await good(request)

    assert await got(source_of(leads), 3, 4) == FIRST[3:7]


LONG = "a" * 70  # no label of a name is so long
NOWHERE = [f"https://{LONG}.example/", "https://a..example/", "https://.localhost/"]


@pytest.mark.parametrize("address", NOWHERE)
@trio_test
async def test_a_host_that_no_name_can_have_is_refused(address: str) -> None:
    async with open_client(HttpSettings()) as client:
        with pytest.raises(ShardUnavailable, match="is no address"):
            await read_small(client, address, 10)
        file = ModelFilePart(n_bytes=10, urls=(address,))
        with pytest.raises(ShardUnavailable, match="is no address"):
            await HttpSource(client, [file]).read(0, 10, bytearray().extend)


@pytest.mark.parametrize("location", ["data:,x", "https://xn--a/", "javascript:1"])
@trio_test(autojump=True)
async def test_a_redirect_that_the_client_cannot_read_is_refused(location: str) -> None:
    async def away(_: httpx.Request) -> httpx.Response:
        return httpx.Response(302, headers={"location": location})

    with pytest.raises(ShardUnavailable, match=r"no (http )?address"):
        await got(source_of(away), 0, 10)


@trio_test(autojump=True)
async def test_who_drips_is_given_up_soon_however_much_was_asked_for() -> None:
    settings = HttpSettings(max_failures=1)
    start = trio.current_time()
    with pytest.raises(ShardUnavailable, match="took longer than 30 s"):
        await got(source_of(drip, settings=settings), 0, len(FIRST))
    async with httpx.AsyncClient(transport=httpx.MockTransport(drips)) as client:
        with pytest.raises(ShardUnavailable, match="took longer than 30 s"):
            await read_small(client, A, 1 << 24, settings)
    assert trio.current_time() - start < 61


@trio_test(autojump=True)
async def test_a_slow_server_has_its_time() -> None:
    async def slow(request: httpx.Request) -> httpx.Response:
        async def slowly() -> AsyncIterator[bytes]:
            for at in range(0, len(FIRST), 16_384):
                await trio.sleep(2.6)  # 42 s in all, of 30 and one for each chunk
                yield FIRST[at : at + 16_384]

        return partial(request, FIRST, slowly())

    assert await got(source_of(slow), 0, len(FIRST)) == FIRST


@trio_test(autojump=True)
async def test_a_stranger_may_not_have_this_machine_asked() -> None:
    settings = HttpSettings(loopback=False)
    source = source_of(good, "http://127.0.0.1:1/m", settings=settings)
    with pytest.raises(ShardUnavailable, match="on this machine, where nothing"):
        await got(source, 0, 1)


@trio_test(autojump=True)
async def test_what_the_writer_raises_comes_through() -> None:
    def full(_: bytes) -> None:
        raise OSError(28, "no space left")

    with pytest.raises(OSError, match="no space"):
        await source_of(good).read(0, 10, full)


@trio_test(autojump=True)
async def test_a_small_file_is_had_whole_or_not_at_all() -> None:
    numbers = count()

    async def now_and_then(request: httpx.Request) -> httpx.Response:
        if next(numbers) == 0:
            raise httpx.ConnectError("no route")
        assert "range" not in request.headers
        return httpx.Response(200, stream=Body(once(SECOND)))

    transport = httpx.MockTransport(now_and_then)
    async with httpx.AsyncClient(transport=transport) as client:
        assert await read_small(client, A, len(SECOND)) == SECOND
        with pytest.raises(ShardUnavailable, match="has more than 2999 bytes"):
            await read_small(client, A, len(SECOND) - 1)
        settings = HttpSettings(loopback=False)
        with pytest.raises(ShardUnavailable, match="nothing is asked"):
            await read_small(client, "http://localhost/m", 10, settings)


@trio_test
async def test_a_client_can_be_opened() -> None:
    async with open_client(HttpSettings()) as client:
        assert not client.follow_redirects


HEAD = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-999/%d\r\n" % len(FIRST)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


async def pour(stream: trio.SocketStream, head: bytes, again: bytes) -> None:
    """Send a head, then something else for ever."""
    await stream.send_all(head)
    while again:
        await stream.send_all(again)


@pytest.mark.parametrize(
    ("head", "again", "says"),
    [
        (CHUNKED, b"1000\r\n" + bytes(4096) + b"\r\n", "more bytes"),
        (HEAD + b"Content-Length: 1000\r\n\r\n" + bytes(1000), b"y" * 4096, ""),
        (HEAD + b"Content-Length: 99999\r\n\r\n", b"y", "would send 99999 bytes"),
        (HEAD, b"X-Long: " + b"x" * 4000 + b"\r\n", "127.0.0.1"),
        (b"no http at all\r\n\r\n", b"", "127.0.0.1"),
        (b"", b"", "127.0.0.1"),
        (HEAD + b"Content-Length: 1000\r\n\r\n" + bytes(999), b"", "127.0.0.1"),
        (CHUNKED + b"zz\r\n", b"", "127.0.0.1"),
    ],
    ids=range(8),
)
@trio_test
async def test_over_a_socket_a_strange_server_neither_hangs_nor_floods(
    head: bytes, again: bytes, says: str
) -> None:
    async def strange(stream: trio.SocketStream) -> None:
        try:
            await stream.receive_some()
            await pour(stream, head, again)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    settings = HttpSettings(max_failures=1, silence_s=2.0)
    found = bytearray()
    async with trio.open_nursery() as nursery:
        serve = functools.partial(trio.serve_tcp, strange, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve)
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/m"
        file = ModelFilePart(n_bytes=len(FIRST), urls=(url,))
        with trio.fail_after(20):
            async with open_client(settings) as client:
                source = HttpSource(client, [file], settings)
                if says:
                    with pytest.raises(ShardUnavailable, match=says):
                        await source.read(0, 1000, found.extend)
                else:
                    await source.read(0, 1000, found.extend)
        nursery.cancel_scope.cancel()
    assert len(found) <= 1000
