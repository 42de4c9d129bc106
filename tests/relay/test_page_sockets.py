"""The live status: what viewers are sent, who may look, and how it ends."""

import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from relay.page_sockets import StatusBoard
from relay.streams import TcpStream
from tests.support.relays import running_relay
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
