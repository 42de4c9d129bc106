"""The live status: what viewers are sent, who may look, and how it ends."""

import contextlib
import json
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from relay import ClientSettings
from relay.page_sockets import StatusBoard, Viewers, _Viewer
from relay.streams import TcpStream
from tests.support.relays import (
    joined,
    key,
    plain_config,
    running_relay,
    tls_config,
)
from tests.support.trio_test import trio_test


class Viewer:
    """A browser's WebSocket on the status path."""

    def __init__(self, stream: TcpStream, port: int, origin: str | None) -> None:
        self.stream = stream
        uri = parse_uri(f"ws://127.0.0.1:{port}/status")
        self.protocol = ClientProtocol(uri, origin=origin)
        self.status = 0
        self.frames: list[Frame] = []

    async def flush(self) -> None:
        await self.stream.send_all(b"".join(self.protocol.data_to_send()))

    async def upgrade(self) -> int:
        self.protocol.send_request(self.protocol.connect())
        await self.flush()
        while not self.status:
            await self.read()
        return self.status

    async def read(self) -> bool:
        chunk = await self.stream.receive_some(65536)
        if not chunk:
            self.protocol.receive_eof()
        else:
            self.protocol.receive_data(chunk)
        for event in self.protocol.events_received():
            if isinstance(event, Frame):
                self.frames.append(event)
            else:
                self.status = event.status_code
        if self.protocol.handshake_exc is not None and not self.status:
            self.status = self.protocol.handshake_exc.response.status_code
        return bool(chunk)

    async def text(self) -> dict[str, object]:
        while not self.frames:
            assert await self.read(), "the relay closed"
        frame = self.frames.pop(0)
        assert frame.opcode is Opcode.TEXT, frame
        return json.loads(frame.data)

    async def close_code(self) -> int:
        while await self.read():
            pass
        assert self.protocol.close_rcvd is not None
        return self.protocol.close_rcvd.code


@contextlib.asynccontextmanager
async def looking(port: int, *, origin: str | None = None) -> AsyncIterator[Viewer]:
    opened = await trio.open_tcp_stream("127.0.0.1", port)
    stream = TcpStream(socket.socket(fileno=opened.socket.detach()))
    try:
        yield Viewer(stream, port, origin)
    finally:
        stream.close()


SECTIONS = st.dictionaries(
    st.sampled_from("abcd"), st.one_of(st.none(), st.integers(), st.text()), max_size=4
)


@given(snapshots=st.lists(SECTIONS, min_size=1, max_size=6), data=st.data())
def test_a_viewer_that_merges_has_the_newest_snapshot(snapshots, data) -> None:
    board = StatusBoard()
    state: dict[str, object] = {}
    seen = 0
    for snapshot in snapshots:
        board.update(snapshot)
        if data.draw(st.booleans()):
            text = json.loads(board.text(seen))
            state = {**(state if 0 < seen == board.serial - 1 else {}), **text}
            seen = board.serial
            known = {name: what for name, what in state.items() if what is not None}
            wanted = {name: w for name, w in snapshot.items() if w is not None}
            assert known == wanted


def test_only_what_changed_is_said_again() -> None:
    board = StatusBoard()
    board.update({"a": 1, "b": [1, 2]})
    assert board.text() == b'{"a":1,"b":[1,2]}'
    board.update({"a": 2, "b": [1, 2]})
    assert board.text(1) == b'{"a":2}'
    assert board.text() == b'{"a":2,"b":[1,2]}'
    board.update({"a": 2})
    assert board.text(2) == b'{"b":null}'
    assert board.text(1) == b'{"a":2}'


@pytest.mark.parametrize(
    "wrong", [{"a": float("nan")}, {"a": "x" * (1 << 20)}], ids=["nan", "large"]
)
def test_a_wrong_snapshot_leaves_the_last(wrong: dict[str, object]) -> None:
    board = StatusBoard()
    board.update({"a": 1})
    with pytest.raises(ValueError, match=r"JSON|bytes"):
        board.update(wrong)
    assert board.text() == b'{"a":1}'
    assert board.serial == 1


@trio_test(autojump=True)
async def test_a_snapshot_a_second_made_once_for_all_and_only_if_watched() -> None:
    made = 0

    def status() -> dict[str, object]:
        nonlocal made
        made += 1
        return {"n": made, "name": "x"}

    async with running_relay(status=status) as relay:
        await trio.sleep(10)
        assert made == 0
        async with looking(relay.port) as one, looking(relay.port) as two:
            assert await one.upgrade() == 101
            assert await two.upgrade() == 101
            assert (await one.text())["name"] == "x"
            first = await two.text()
            assert first["name"] == "x"
            for number in (2, 3, 4):
                assert (await one.text())["n"] == number
                assert "name" not in (await two.text())
            assert made == 4
        await trio.sleep(10)
        assert made <= 5
    assert relay.counters.refused.total() == 0


def always() -> dict[str, object]:
    return {"a": 1}


@trio_test
async def test_the_snapshot_is_told_once_over_plain_http_too() -> None:
    async with running_relay(status=always) as relay:
        base = f"http://127.0.0.1:{relay.port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            answer = await client.get("/status")
            assert answer.headers["content-type"] == "application/json"
            assert set(answer.json()) == {"a", "relay"}
            page = await client.get("/")
            assert "<title>Network status</title>" in page.text
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'; script-src 'sha256-" in policy
            assert "unsafe" not in policy
    async with running_relay() as relay:
        base = f"http://127.0.0.1:{relay.port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            assert (await client.get("/status")).status_code == 404
            assert "status" not in (await client.get("/")).text
        async with looking(relay.port) as viewer:
            assert await viewer.upgrade() == 404


@trio_test
async def test_pings_are_answered_and_data_ends_the_connection() -> None:
    async with running_relay(status=always) as relay:
        async with looking(relay.port) as viewer:
            assert await viewer.upgrade() == 101
            await viewer.text()
            viewer.protocol.send_ping(b"here")
            await viewer.flush()
            while Opcode.PONG not in [frame.opcode for frame in viewer.frames]:
                assert await viewer.read()
            viewer.protocol.send_text(b"let me in")
            await viewer.flush()
            assert await viewer.close_code() == 1008
        async with looking(relay.port) as viewer:
            assert await viewer.upgrade() == 101
            viewer.protocol.send_close(1000)
            await viewer.flush()
            assert await viewer.close_code() == 1000


@trio_test
async def test_a_flood_of_pings_that_reads_no_answer_is_ended() -> None:
    async with running_relay(status=always) as relay:
        async with looking(relay.port) as viewer:
            assert await viewer.upgrade() == 101
            for _ in range(1000):
                viewer.protocol.send_ping(b"x" * 100)
            with contextlib.suppress(trio.BrokenResourceError):
                await viewer.flush()
            await viewer.close_code()


@given(garbage=st.binary(min_size=1, max_size=300))
@settings(max_examples=25, deadline=None)
def test_whatever_a_viewer_sends_ends_its_own_connection_at_most(
    garbage: bytes,
) -> None:
    @trio_test(autojump=True)
    async def main() -> None:
        async with running_relay(status=always) as relay:
            async with looking(relay.port) as viewer:
                assert await viewer.upgrade() == 101
                await viewer.stream.send_all(garbage)
                await viewer.stream.send_eof()
                with contextlib.suppress(trio.BrokenResourceError):
                    while await viewer.stream.receive_some(65536):
                        pass
        assert relay.counters.refused["internal error"] == 0

    main()


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 101),
        ("http://127.0.0.1:{port}", 101),
        ("http://evil.example", 403),
        ("http://127.0.0.1", 101),
        ("http://127.0.0.1.evil.example", 403),
        ("127.0.0.1", 403),
        ("null", 403),
        ("http://[::1", 403),
        ("", 403),
    ],
)
def test_only_the_relays_own_page_may_look(origin: str | None, status: int) -> None:
    @trio_test
    async def main() -> None:
        async with running_relay(status=always) as relay:
            of = None if origin is None else origin.format(port=relay.port)
            async with looking(relay.port, origin=of) as viewer:
                assert await viewer.upgrade() == status

    main()


@trio_test
async def test_at_most_64_viewers_and_16_of_one_address() -> None:
    viewers = Viewers(always)
    request = Request("/status", Headers(Host="relay"))

    async def refused(address: str) -> int:
        protocol = ServerProtocol()
        answer = viewers._answer(protocol, request, address)
        return answer.status_code

    def seat(address: str) -> None:
        stream, _ = trio.testing.memory_stream_pair()
        viewer = _Viewer(stream=stream, protocol=ServerProtocol())
        viewers._viewers[viewer] = address

    for _ in range(16):
        seat("192.0.2.1")
    assert await refused("192.0.2.1") == 429
    assert await refused("192.0.2.2") == 426  # no upgrade, but no limit
    for _ in range(48):
        seat("127.0.0.1")
    assert await refused("127.0.0.1") == 503
    viewers.close()
    viewers._viewers.clear()
    assert await refused("192.0.2.2") == 503


@trio_test(autojump=True)
async def test_a_viewer_that_was_too_slow_gets_all_again() -> None:
    viewers = Viewers(always)
    viewers.snapshot()
    viewers.snapshot()
    assert viewers._board.serial == 1
    await trio.sleep(1.5)
    viewers.snapshot()
    await trio.sleep(1.5)
    viewers.snapshot()
    assert viewers._board.serial == 3
    assert viewers._board.text(1) == b'{"a":1}'
    assert viewers._board.text(2) == b"{}"


@trio_test(autojump=True)
async def test_a_source_that_fails_leaves_the_last_snapshot(caplog) -> None:
    values = [{"a": 1}]

    def status() -> dict[str, object]:
        return values.pop()

    async with running_relay(status=status) as relay:
        async with looking(relay.port) as viewer:
            assert await viewer.upgrade() == 101
            assert (await viewer.text())["a"] == 1
            await trio.sleep(3)
            viewer.protocol.send_ping(b"still")
            await viewer.flush()
            assert await viewer.read()
            assert {frame.opcode for frame in viewer.frames} == {Opcode.PONG}
    assert "no status snapshot" in caplog.text
    caplog.clear()


@trio_test(autojump=True)
async def test_a_relay_that_stops_tells_its_viewers_and_waits_for_none() -> None:
    closed: list[int] = []
    async with trio.open_nursery() as nursery:
        async with running_relay(plain_config(drain_s=30.0), status=always) as relay:
            opened = await trio.open_tcp_stream("127.0.0.1", relay.port)
            stream = TcpStream(socket.socket(fileno=opened.socket.detach()))
            viewer = Viewer(stream, relay.port, None)
            assert await viewer.upgrade() == 101

            async def look() -> None:
                closed.append(await viewer.close_code())
                stream.close()

            nursery.start_soon(look)
            await trio.testing.wait_all_tasks_blocked()
            stopped_at = trio.current_time()
    assert closed == [1012]
    assert trio.current_time() - stopped_at < 5.0


@trio_test
async def test_with_a_certificate_of_its_own_the_page_is_shown_without_tls_too() -> (
    None
):
    async with running_relay(tls_config(), status=always) as relay:
        base = f"http://127.0.0.1:{relay.port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            assert "<title>" in (await client.get("/")).text
            assert (await client.get("/livez")).status_code == 200
            assert (await client.get("/metrics")).status_code == 403
            assert (await client.get("/relay")).status_code == 403
        async with looking(relay.port, origin=base) as viewer:
            assert await viewer.upgrade() == 101
            assert "relay" in await viewer.text()
        async with joined(relay, key(1), settings=ClientSettings()):
            pass
    assert relay.counters.refused == {"plaintext": 2}
    async with running_relay(tls_config()) as relay:
        base = f"http://127.0.0.1:{relay.port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            with pytest.raises(httpx.HTTPError):
                await client.get("/")
