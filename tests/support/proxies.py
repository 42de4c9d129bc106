"""An HTTP proxy for tests: answers CONNECT as it is told, or tunnels.

`python -m tests.support.proxies HOST PORT USER:PASSWORD` runs one that wants a password
and prints `up`.
"""

import base64
import contextlib
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial

import trio

from relay.tls import pinning_context

__all__ = ["FakeProxy", "running_proxy", "splice"]


@dataclass
class FakeProxy:
    """`answer` is what each CONNECT gets; b"" opens the tunnel.

    `target` replaces the host and port that the client names; `password`: what it wants
    as `user:password`; `inspect`: it ends TLS with this and begins its own behind it.
    """

    answer: bytes = b""
    password: str = ""
    inspect: ssl.SSLContext | None = None
    target: tuple[str, int] | None = None
    port: int = 0
    heads: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, stream: trio.abc.Stream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            chunk = await stream.receive_some(4096)
            if not chunk:
                return
            head += chunk
        text = head.decode("ascii")
        self.heads.append(text)
        answer = self.answer or self._ask(text)
        if answer:
            await stream.send_all(answer)
            return
        host, _, port = text.split()[1].rpartition(":")
        host, port = self.target or (host.strip("[]"), int(port))
        async with await trio.open_tcp_stream(host, port) as upstream:
            await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if self.inspect is None:
                await splice(stream, upstream)
                return
            here = trio.SSLStream(stream, self.inspect, server_side=True)
            there = trio.SSLStream(upstream, pinning_context())
            await splice(here, there)

    def _ask(self, head: str) -> bytes:
        coded = base64.b64encode(self.password.encode()).decode()
        if not self.password or f"Proxy-Authorization: Basic {coded}\r\n" in head:
            return b""
        return b"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic realm=x\r\n\r\n"


async def splice(left: trio.abc.Stream, right: trio.abc.Stream) -> None:
    """Copy both ways until one side ends."""

    async def pump(source: trio.abc.Stream, sink: trio.abc.Stream) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while chunk := await source.receive_some(65536):
                await sink.send_all(chunk)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump, left, right)
        nursery.start_soon(pump, right, left)


@contextlib.asynccontextmanager
async def running_proxy(
    wrap: Callable[[trio.SocketStream], trio.abc.Stream] = lambda stream: stream,
    **settings: object,
) -> AsyncIterator[FakeProxy]:
    """Run a proxy on a free port; `wrap` may put TLS before it."""
    proxy = FakeProxy(**settings)

    async def handle(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await proxy.handle(wrap(stream))

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(
            partial(trio.serve_tcp, handle, 0, host="127.0.0.1")
        )
        proxy.port = listener.socket.getsockname()[1]
        yield proxy
        nursery.cancel_scope.cancel()


async def _main(host: str, port: str, password: str) -> None:
    proxy = FakeProxy(password=password)
    listeners = await trio.open_tcp_listeners(int(port), host=host)
    print("up", flush=True)
    await trio.serve_listeners(proxy.handle, listeners)


if __name__ == "__main__":
    trio.run(_main, *sys.argv[1:])
