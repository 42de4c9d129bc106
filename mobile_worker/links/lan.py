"""Asks the local network for peers by multicast DNS, and announces this one.

The package `zeroconf` (extra `lan`) does it in threads of its own and answers beside
other services of the host on port 5353, which a protocol of ours could not. What it
finds comes over to the trio thread as `Found`: the last word for each of at most 1,024
names, however many packets come. Nothing here can end a node: what fails is one line in
the log, and the relay remains.
"""

import contextlib
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from mobile_worker.errors import LanUnavailable
from mobile_worker.links.discovery import (
    Found,
    announced_hosts,
    is_lan_name,
    lan_name,
    parse_found,
)
from relay.keys import PeerId

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, ServiceStateChange, Zeroconf

__all__ = ["Announced", "announcement", "check_lan", "search_lan"]

_LOG = logging.getLogger("p2pmoe.links")
_SERVICE: Final = "_p2pmoe._tcp.local."
_MAX_PENDING: Final = 1024
_ASK_S: Final = 2.0
_ASK_SHARE: Final = 0.1
_CLOSE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Announced:
    """This peer's name and where it takes links; no hosts: all of this machine's."""

    name: str
    hosts: tuple[str, ...]
    port: int


def announcement(
    network: bytes, peer: PeerId, listeners: Sequence[trio.SocketListener]
) -> Announced | None:
    """Return what to announce of a peer that listens there; None if it does not."""
    if not listeners:
        return None
    host, port = listeners[0].socket.getsockname()[:2]
    hosts = () if ipaddress.ip_address(host).is_unspecified else (host,)
    return Announced(lan_name(network, peer), hosts, port)


def check_lan() -> None:
    """Raise LanUnavailable if the local network cannot be searched here."""
    try:
        import zeroconf  # noqa: F401, PLC0415 - of an extra
    except ImportError as error:
        raise LanUnavailable("the package zeroconf is not installed") from error


async def search_lan(
    announced: Announced | None, heed: Callable[[Found], None]
) -> None:
    """Announce and search until cancelled; `heed` gets what comes, in this thread.

    What fails is logged, and then this returns.
    """
    search = _Search(heed, trio.lowlevel.current_trio_token())
    try:
        await trio.to_thread.run_sync(search.open, announced, abandon_on_cancel=True)
        await trio.sleep_forever()
    except (OSError, LanUnavailable, _errors()) as error:
        _LOG.warning("the local network is not searched: %s", str(error).lower())
    finally:
        with trio.move_on_after(_CLOSE_S) as scope:
            scope.shield = True
            await trio.to_thread.run_sync(search.close, abandon_on_cancel=True)


def _errors() -> type[Exception]:
    try:
        from zeroconf import Error  # noqa: PLC0415 - of an extra
    except ImportError:
        return LanUnavailable
    return Error


class _Search:
    """What lives in zeroconf's threads; `_pending` is all that both sides touch."""

    def __init__(
        self, heed: Callable[[Found], None], token: trio.lowlevel.TrioToken
    ) -> None:
        self._heed = heed
        self._token = token
        self._lock = threading.Lock()
        self._pending: dict[str, Found] = {}
        self._zeroconf: Zeroconf | None = None
        self._is_closed = False
        self._patience_s = _ASK_S
        self._asked_at = time.monotonic()

    def open(self, announced: Announced | None) -> None:
        """Open sockets, search, and announce; takes a second or two."""
        check_lan()
        from zeroconf import IPVersion, ServiceBrowser, Zeroconf  # noqa: PLC0415 - of an extra

        zeroconf = Zeroconf(ip_version=IPVersion.V4Only)
        with self._lock:
            self._zeroconf = zeroconf
            is_closed = self._is_closed
        if is_closed:
            zeroconf.close()
            return
        ServiceBrowser(zeroconf, _SERVICE, handlers=[self._changed])
        if announced is not None:
            info = _info_of(announced)
            if info is not None:
                zeroconf.register_service(info)

    def close(self) -> None:
        """Take the announcement back and end the threads."""
        with self._lock:
            self._is_closed = True
            zeroconf, self._zeroconf = self._zeroconf, None
        if zeroconf is not None:
            zeroconf.close()

    def _changed(
        self,
        zeroconf: "Zeroconf",
        service_type: str,
        name: str,
        state_change: "ServiceStateChange",
    ) -> None:
        own = name.removesuffix(f".{_SERVICE}").lower()
        if len(own) == len(name) or not is_lan_name(own):
            return  # zeroconf raises at some of those, and that ended its thread
        found: Found | None = Found(own, ())
        if state_change.name != "Removed":
            info = self._ask(zeroconf, service_type, name)
            hosts = [] if info is None else info.parsed_addresses()
            found = parse_found(own, hosts, None if info is None else info.port)
        if found is None:
            return
        with self._lock:
            if len(self._pending) >= _MAX_PENDING and found.name not in self._pending:
                return
            self._pending[found.name] = found
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._hand_over, idempotent=True)

    def _ask(
        self, zeroconf: "Zeroconf", service_type: str, name: str
    ) -> "ServiceInfo | None":
        """Return what an announcement says, at once if it came whole.

        Announcements that say nothing keep those behind them waiting for 2 s in all,
        and then for a tenth of the time.
        """
        began = time.monotonic()
        earned_s = _ASK_SHARE * (began - self._asked_at)
        self._patience_s = min(_ASK_S, self._patience_s + earned_s)
        info = zeroconf.get_service_info(
            service_type, name, max(1, int(1000 * self._patience_s))
        )
        self._asked_at = time.monotonic()
        self._patience_s -= self._asked_at - began
        return info

    def _hand_over(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, {}
        for found in pending.values():
            self._heed(found)


def _info_of(announced: Announced) -> "ServiceInfo | None":
    import ifaddr  # noqa: PLC0415 - of an extra
    from zeroconf import ServiceInfo  # noqa: PLC0415 - of an extra

    own = [str(ip.ip) for each in ifaddr.get_adapters() for ip in each.ips]
    hosts = announced_hosts(announced.hosts or own)
    if not hosts:
        return None
    return ServiceInfo(
        _SERVICE,
        f"{announced.name}.{_SERVICE}",
        addresses=[socket.inet_aton(host) for host in hosts],
        port=announced.port,
        properties={"v": "1"},
        server=f"{announced.name}.local.",
    )
