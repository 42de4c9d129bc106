"""How warm the processor is, from Linux's `/sys/class/thermal`.

The hottest zone whose type names a processor, a package or the board's own sensor for
it; zones of radios, disks and batteries do not count, and a value that no processor can
have that runs is no reading.
"""

import re
from pathlib import Path
from typing import Final

__all__ = ["read_temperature"]

_PROCESSOR: Final = re.compile(
    r"cpu|pkg|core|soc|acpitz|cluster|^big|^little", re.IGNORECASE
)
_MAX_ZONES: Final = 128
_MAX_CHARS: Final = 64
_COLDEST_C, _HOTTEST_C = 5.0, 125.0


def read_temperature(folder: Path) -> float | None:
    """Return degrees Celsius of the hottest processor zone; None if none tells."""
    try:
        zones = sorted(folder.glob("thermal_zone*"))[:_MAX_ZONES]
    except OSError:
        return None
    found = (
        _degrees(zone) for zone in zones if _PROCESSOR.search(_text(zone / "type"))
    )
    return max((each for each in found if each is not None), default=None)


def _degrees(zone: Path) -> float | None:
    text = _text(zone / "temp")
    if not (text.isascii() and text.isdigit()):
        return None
    degrees = int(text) / 1000
    return degrees if _COLDEST_C < degrees < _HOTTEST_C else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_CHARS)
    except OSError:  # some zones of sleeping devices cannot be read
        return ""
    return raw.decode("ascii", "replace").strip()
