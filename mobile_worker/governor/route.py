"""Whether the way out of this machine costs by the byte, as far as Linux tells at once.

The interface of the default route decides: a mobile one costs, a wired one does not,
and of a wireless one only the network's manager knows: see `outside`.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["WayOut", "read_way_out"]

_MOBILE: Final = re.compile(r"wwan|wwp|rmnet|ccmni|pdp|ppp|rndis", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_.:@-]{1,15}", re.ASCII)
_MAX_BYTES: Final = 1 << 14
_ETHERNET: Final = b"1"


class WayOut(NamedTuple):
    """The interface of the default route, "" for none; None: it does not tell."""

    interface: str
    is_metered: bool | None


def read_way_out(routes: Path, interfaces: Path) -> WayOut:
    """Read files like `/proc/net/route` and folders like `/sys/class/net`."""
    name = _default_interface(routes)
    if not name:
        return WayOut("", None)
    if _MOBILE.match(name):
        return WayOut(name, is_metered=True)
    folder = interfaces / name
    is_wireless = (folder / "wireless").exists() or (folder / "phy80211").exists()
    if not is_wireless and _first(folder / "type") == _ETHERNET:
        return WayOut(name, is_metered=False)
    return WayOut(name, is_metered=None)


def _default_interface(routes: Path) -> str:
    """Return the interface of the default route with the lowest metric."""
    found: list[tuple[int, str]] = []
    for line in _bytes(routes).splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or fields[1] != b"00000000" or not fields[6].isdigit():
            continue
        name = fields[0].decode("ascii", "replace")
        if _NAME.fullmatch(name):
            found.append((int(fields[6]), name))
    return min(found)[1] if found else ""


def _first(path: Path) -> bytes:
    return _bytes(path).strip()


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""
