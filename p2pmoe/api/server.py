"""Where the API listens: hypercorn's trio worker on a socket of our own.

The address is bound before anything else, so that a port in use is one clear line and
port 0 is known to the caller. An address beyond this machine needs an API key.
"""

import functools
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from p2pmoe.api.app import ApiParts, build_app
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from hypercorn.typing import Framework

__all__ = ["ListenAddress", "serve_api"]

log = logging.getLogger("p2pmoe.api")

_BACKLOG = 256
_GRACE_S = 3.0
_IDLE_S = 20  # the server also holds a socket so long after its client has gone


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port; port 0 takes a free one."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


async def serve_api(
    parts: ApiParts,
    listen: ListenAddress,
    *,
    shutdown: Callable[[], Awaitable[None]] | None = None,
    task_status: trio.TaskStatus[ListenAddress] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, or until `shutdown` returns; then requests get 3 s.

    `task_status` is told the real address once connections are taken.

    Raises:
        ConfigurationError: The address is beyond this machine and there is no key, or
            it cannot be bound.
    """
    if not listen.is_local and parts.keys is None:
        raise ConfigurationError(
            f"listening on {listen.host} needs an API key",
            advice="set P2PMOE_API_KEY or --api-key-file, or listen on 127.0.0.1",
        )
    bound = _bind(listen)
    address = ListenAddress(listen.host, bound.getsockname()[1])
    config = _config(bound.detach())
    app = cast("Framework", build_app(parts))
    async with trio.open_nursery() as nursery:
        await nursery.start(
            functools.partial(
                serve, app, config, shutdown_trigger=shutdown, mode="asgi"
            )
        )
        host = f"[{address.host}]" if ":" in address.host else address.host
        log.info("the API listens on http://%s:%d/v1", host, address.port)
        task_status.started(address)


def _bind(listen: ListenAddress) -> socket.socket:
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind)
    except OSError as exc:
        raise _unusable(listen, exc) from exc
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind(place)
        bound.listen(_BACKLOG)
    except OSError as exc:
        bound.close()
        raise _unusable(listen, exc) from exc
    return bound


def _unusable(listen: ListenAddress, exc: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"cannot listen on {listen.host}:{listen.port}: {exc.strerror}",
        advice="choose another --listen address, or stop what holds this one",
    )


def _config(descriptor: int) -> Config:
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.accesslog = None
    config.errorlog = None
    config.graceful_timeout = _GRACE_S
    config.include_server_header = False
    config.keep_alive_timeout = _IDLE_S
    return config
