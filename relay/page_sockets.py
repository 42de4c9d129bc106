"""Live status for people: one snapshot a second, made once, sent to at most 64 viewers.

    GET /status with an upgrade    a WebSocket of JSON texts, read-only
    GET /status without            the whole snapshot once, as JSON

A snapshot is a mapping of named sections. A viewer's first text has all of them; later
ones have those that changed, or all again if it was too slow for one in between: it
never lags behind by more than the text that is being written. Nothing is computed while
nobody looks. What a viewer says is not listened to: data closes with 1008. A page of
another host is refused, so that no website reads the status of a relay in a LAN.

The source is the caller's; a fault of it is logged and the last snapshot stays.
"""

import contextlib
import http
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import trio
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from relay.defaults import READ_BYTES
from relay.endpoint import is_loopback
from relay.gate import address_key
from relay.pages import host_name
from relay.streams import Wakeup

__all__ = ["STATUS_PATH", "StatusBoard", "StatusSource", "Viewers"]

StatusSource = Callable[[], Mapping[str, object]]

STATUS_PATH: Final = "/status"
_LOG = logging.getLogger("p2pmoe.relay")
_MAX_VIEWERS: Final = 64
_MAX_OF_ADDRESS: Final = 16  # but of loopback: that may be a front
_PERIOD_S: Final = 1.0
_MAX_TEXT_BYTES: Final = 1 << 20
_MAX_ANSWERS: Final = 64
_DATA: Final = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})


class StatusBoard:
    """The newest snapshot as JSON, whole and as what changed. No I/O.

    `serial` counts snapshots; 0: none yet.
    """

    def __init__(self) -> None:
        self.serial = 0
        self._sections: dict[str, str] = {}
        self._whole = b"{}"
        self._changes = b"{}"

    def update(self, snapshot: Mapping[str, object]) -> None:
        """Take a new snapshot.

        Raises:
            ValueError: it is no JSON, or larger than 1 MiB; the last one stays.
        """
        sections = {name: _encode(section) for name, section in snapshot.items()}
        whole = _join(sections)
        if len(whole) > _MAX_TEXT_BYTES:
            raise ValueError(f"a snapshot of {len(whole)} bytes")
        changed = {
            name: text
            for name, text in sections.items()
            if self._sections.get(name) != text
        }
        gone = dict.fromkeys(self._sections.keys() - sections.keys(), "null")
        self._sections, self._whole = sections, whole
        self._changes = _join(changed | gone)
        self.serial += 1

    def text(self, seen: int = 0) -> bytes:
        """Return what a viewer that has seen snapshot `seen` needs to be up to date."""
        return self._changes if 0 < seen == self.serial - 1 else self._whole


def _encode(section: object) -> str:
    return json.dumps(section, separators=(",", ":"), allow_nan=False)


def _join(sections: Mapping[str, str]) -> bytes:
    members = (f"{json.dumps(name)}:{text}" for name, text in sections.items())
    return f"{{{','.join(members)}}}".encode()


@dataclass(slots=True, kw_only=True, eq=False)
class _Viewer:
    stream: trio.abc.Stream
    protocol: ServerProtocol
    seen: int = 0
    close_code: int = 0
    news: Wakeup = field(default_factory=Wakeup)

    def close(self, code: int) -> None:
        """Say goodbye at the next write."""
        self.close_code = self.close_code or code
        self.news.set()


class Viewers:
    """All who look at the status of one relay."""

    def __init__(self, source: StatusSource) -> None:
        self._source = source
        self._board = StatusBoard()
        self._made_at = float("-inf")
        self._viewers: dict[_Viewer, str] = {}
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._viewers)

    async def run(self) -> None:
        """Make a snapshot a second while somebody looks, until cancelled."""
        while True:
            await trio.sleep(_PERIOD_S)
            if self._viewers:
                self._refresh()
                for viewer in self._viewers:
                    viewer.news.set()

    def snapshot(self) -> bytes:
        """Return the whole snapshot as JSON, at most a second old."""
        if trio.current_time() - self._made_at >= _PERIOD_S:
            self._refresh()
        return self._board.text()

    def close(self) -> None:
        """Tell all viewers that the relay goes away; take no more."""
        self._is_closing = True
        for viewer in self._viewers:
            viewer.close(1012)

    async def serve(
        self,
        stream: trio.abc.Stream,
        protocol: ServerProtocol,
        request: Request,
        remote: str,
    ) -> None:
        """Serve one viewer, whose request came over `stream`, until it leaves.

        Raises:
            trio.BrokenResourceError: it is gone before it is answered.
        """
        address = address_key(remote)
        protocol.send_response(self._answer(protocol, request, address))
        await _flush(stream, protocol)
        if protocol.state is not State.OPEN:
            return
        self.snapshot()
        viewer = _Viewer(stream=stream, protocol=protocol)
        self._viewers[viewer] = address
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write_loop, viewer, nursery.cancel_scope)
                await _read_loop(viewer)
        finally:
            del self._viewers[viewer]

    def _answer(
        self, protocol: ServerProtocol, request: Request, address: str
    ) -> Response:
        of_address = sum(each == address for each in self._viewers.values())
        if is_loopback(address):
            of_address = 0
        if self._is_closing or len(self) >= _MAX_VIEWERS:
            reason = "too many viewers, or the relay stops"
            return protocol.reject(http.HTTPStatus.SERVICE_UNAVAILABLE, f"{reason}\n")
        if of_address >= _MAX_OF_ADDRESS:
            reason = "too many viewers of one address"
            return protocol.reject(http.HTTPStatus.TOO_MANY_REQUESTS, f"{reason}\n")
        if not _is_of_this_page(request):
            reason = "a page of another origin"
            return protocol.reject(http.HTTPStatus.FORBIDDEN, f"{reason}\n")
        protocol.available_subprotocols = None  # those are the peers'
        return protocol.accept(request)

    def _refresh(self) -> None:
        self._made_at = trio.current_time()
        try:
            self._board.update(self._source())
        except Exception:  # noqa: BLE001 - the caller's, whatever it is
            # It must not end the relay; people see the last snapshot.
            _LOG.exception("no status snapshot")

    async def _write_loop(self, viewer: _Viewer, scope: trio.CancelScope) -> None:
        """Own all writes: a snapshot when there is a newer one, answers to pings."""
        protocol = viewer.protocol
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while protocol.state is State.OPEN and not viewer.close_code:
                if viewer.seen != self._board.serial:
                    protocol.send_text(self._board.text(viewer.seen))
                    viewer.seen = self._board.serial
                await _flush(viewer.stream, protocol)
                await viewer.news.wait()
            if protocol.state is State.OPEN:
                protocol.send_close(viewer.close_code)
            await _flush(viewer.stream, protocol)
        scope.cancel()


async def _read_loop(viewer: _Viewer) -> None:
    protocol = viewer.protocol
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while chunk := await viewer.stream.receive_some(READ_BYTES):
            protocol.receive_data(chunk)
            for event in protocol.events_received():
                if isinstance(event, Frame) and event.opcode in _DATA:
                    viewer.close(1008)
            if len(protocol.writes) > _MAX_ANSWERS:  # pings, and it reads nothing
                break
            if protocol.writes:
                viewer.news.set()
            if protocol.state is not State.OPEN:
                return
    viewer.close(1000)


async def _flush(stream: trio.abc.Stream, protocol: ServerProtocol) -> None:
    written = b"".join(protocol.data_to_send())
    if written:
        await stream.send_all(written)


def _is_of_this_page(request: Request) -> bool:
    """Tell whether the request comes from a page of this host, or from no page.

    Ports are not compared: a front may leave them out of the Host that it passes on.
    """
    origins = request.headers.get_all("Origin")
    hosts = request.headers.get_all("Host")
    return not origins or (
        len(origins) == len(hosts) == 1
        and host_name(origins[0].partition("://")[2]) == host_name(hosts[0])
    )
