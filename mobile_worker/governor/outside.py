"""What other programs of this machine tell: power, network, and when it was last used.

    nmcli                       NetworkManager: whether an interface is metered
    busctl                      logind: since when no session has had input
    pmset, ioreg                macOS: power and charge; idle time
    termux-battery-status, termux-wifi-connectioninfo
                                Android, in Termux

Asked once a minute, each only where it is installed, with a deadline; an answer that is
not understood is none. A program costs some milliseconds, so that what a file tells is
never asked here.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from mobile_worker.governor.power_supply import PowerReading
from mobile_worker.governor.readings import Power

__all__ = [
    "Outside",
    "ask_program",
    "parse_idle_hint",
    "parse_ioreg",
    "parse_nmcli",
    "parse_pmset",
    "parse_termux_battery",
    "parse_termux_wifi",
]

_PATIENCE_S: Final = 5.0
_MAX_BYTES: Final = 1 << 16
_LOGIN: Final = (
    *("busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1"),
    *("org.freedesktop.login1.Manager", "IdleHint", "IdleSinceHint"),
)
_MAX_IDLE_S: Final = 366 * 86_400.0
_COLDEST_C, _HOTTEST_C = -40.0, 120.0
_NO_POWER: Final = PowerReading(Power.UNKNOWN)

Ask = Callable[[Sequence[str]], Awaitable[str]]


@dataclass(slots=True)
class Outside:
    """The last answers; `has` finds a program, `ask` runs it and returns its output.

    is_metered: None if nobody tells. last_input_s: seconds since 1970.
    """

    ask: Ask | None = None
    has: Callable[[str], str | None] = shutil.which
    is_macos: bool = sys.platform == "darwin"
    power: PowerReading = _NO_POWER
    is_metered: bool | None = None
    last_input_s: float | None = None

    async def refresh(self, interface: str, wall_s: float) -> None:
        """Ask all again. `interface`: the way out, if it does not tell by itself."""
        self.power = await self._power()
        self.is_metered = await self._metered(interface)
        self.last_input_s = await self._input(wall_s)

    async def _power(self) -> PowerReading:
        if self.is_macos:
            return parse_pmset(await self._asked("pmset", "-g", "batt"))
        return parse_termux_battery(await self._asked("termux-battery-status"))

    async def _metered(self, interface: str) -> bool | None:
        if self.has("termux-wifi-connectioninfo") is not None:
            return parse_termux_wifi(await self._asked("termux-wifi-connectioninfo"))
        if not interface:
            return None
        words = ("nmcli", "-g", "GENERAL.METERED", "device", "show", interface)
        return parse_nmcli(await self._asked(*words))

    async def _input(self, wall_s: float) -> float | None:
        if self.is_macos:
            idle_s = parse_ioreg(await self._asked("ioreg", "-c", "IOHIDSystem"))
            return None if idle_s is None else wall_s - idle_s
        return parse_idle_hint(await self._asked(*_LOGIN), wall_s)

    async def _asked(self, *words: str) -> str:
        if self.has(words[0]) is None:
            return ""
        return await (self.ask or ask_program)(words)


async def ask_program(words: Sequence[str]) -> str:
    """Run a program and return what it prints; "" if it fails or takes too long."""
    with trio.move_on_after(_PATIENCE_S):
        try:
            done = await trio.run_process(
                list(words),
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except OSError:
            return ""
        if done.returncode == 0:
            return done.stdout[:_MAX_BYTES].decode("utf-8", "replace")
    return ""


def parse_nmcli(text: str) -> bool | None:
    """Read `yes`, `no`, and the same with ` (guessed)`; None for anything else."""
    word = text.strip().partition(" ")[0]
    return {"yes": True, "no": False}.get(word)


def parse_idle_hint(text: str, wall_s: float) -> float | None:
    """Read `b true` and `t MICROSECONDS`: when input was last seen, or None."""
    idle, _, since = text.strip().partition("\n")
    if idle == "b false":
        return wall_s
    match = re.fullmatch(r"t (\d{1,18})", since.strip(), re.ASCII)
    return int(match[1]) / 1e6 if idle == "b true" and match else None


def parse_ioreg(text: str) -> float | None:
    """Read the nanoseconds since the last input; return seconds, or None."""
    match = re.search(r'"HIDIdleTime" = (\d{1,18})', text, re.ASCII)
    idle_s = int(match[1]) / 1e9 if match else None
    return idle_s if idle_s is not None and idle_s < _MAX_IDLE_S else None


def parse_pmset(text: str) -> PowerReading:
    """Read `Now drawing from 'AC Power'` and the charge of a battery, if any."""
    source = re.search(r"Now drawing from '(AC|Battery|UPS) Power'", text)
    if source is None:
        return _NO_POWER
    power = Power.MAINS if source[1] == "AC" else Power.BATTERY
    charge = re.search(r"(\d{1,3})%;\s*([a-z ]+)", text, re.ASCII)
    if charge is None:
        return PowerReading(power)
    if charge[2].strip() == "discharging":
        power = Power.BATTERY
    return PowerReading(power, _percent(int(charge[1])))


def parse_termux_battery(text: str) -> PowerReading:
    """Read the JSON of `termux-battery-status`."""
    told = _object(text)
    plugged, status = told.get("plugged"), told.get("status")
    if not isinstance(plugged, str) or not isinstance(status, str):
        return _NO_POWER
    is_mains = plugged.startswith("PLUGGED") and status != "DISCHARGING"
    percent, celsius = told.get("percentage"), told.get("temperature")
    return PowerReading(
        Power.MAINS if is_mains else Power.BATTERY,
        _percent(percent) if isinstance(percent, int) else None,
        _degrees(celsius) if isinstance(celsius, int | float) else None,
    )


def parse_termux_wifi(text: str) -> bool | None:
    """Read the JSON of `termux-wifi-connectioninfo`: off Wi-Fi traffic costs."""
    state = _object(text).get("supplicant_state")
    if not isinstance(state, str):
        return None
    return state != "COMPLETED"


def _degrees(found: float) -> float | None:
    return float(found) if _COLDEST_C < found < _HOTTEST_C else None


def _percent(found: int) -> int | None:
    return found if 0 < found <= 100 else None


def _object(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
