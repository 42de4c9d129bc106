"""What a contributor should know of this machine and folder before a worker says it.

What the sensors tell and what they do not, limits and memory, the key, and what a
worker that runs here says of itself. Only reads; a worker is asked by its socket.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from ledger.errors import LedgerError
from mobile_worker.contribute.machine import Machine
from mobile_worker.errors import WorkerError
from mobile_worker.governor.limits import Limits
from mobile_worker.governor.limits_file import LIMITS_FILE, read_limits
from mobile_worker.governor.readings import Power, Readings
from mobile_worker.session.identity import read_to_sign
from p2pmoe.contributor.client import ask_worker
from p2pmoe.contributor.errors import WorkerNotRunning
from p2pmoe.doctor.findings import Finding, Verdict
from p2pmoe.errors import P2pmoeError

__all__ = ["heat", "key", "limits", "memory", "metered", "power", "termux", "worker"]

_MIB = 1 << 20
_TERMUX_PROGRAMS = (
    "termux-battery-status",
    "termux-wifi-connectioninfo",
    "termux-wake-lock",
)
_MAX_TEXT = 300


def key(folder: Path) -> Finding:
    """Look at the worker's key."""
    path = folder / "identity"
    if not path.exists():
        text = f"{folder} holds no key; the first `p2pmoe contribute` makes one"
        return Finding(check="key", verdict=Verdict.NOTE, text=text)
    try:
        worker_id = read_to_sign(path).peer_id.hex()
    except WorkerError as error:
        return Finding(
            check="key", verdict=Verdict.FAULT, text=str(error), advice=error.advice
        )
    return Finding(
        check="key",
        verdict=Verdict.OK,
        text=f"worker {worker_id[:8]}; keep a copy with `p2pmoe key export`",
    )


def limits(folder: Path) -> tuple[Finding, Limits | None]:
    """Look at the file of limits."""
    try:
        found = read_limits(folder / LIMITS_FILE)
    except WorkerError as error:
        text = str(error)
        return Finding(
            check="limits", verdict=Verdict.FAULT, text=text, advice=error.advice
        ), None
    text = f"preset {found.preset}, power {found.power}, hours {found.hours}"
    return Finding(check="limits", verdict=Verdict.OK, text=text), found


def memory(machine: Machine, wanted: Limits) -> Finding:
    """Judge whether the memory that the limits allow is free."""
    free = machine.free_memory_bytes
    if free is None:
        text = "this system does not tell how much memory is free"
        return Finding(check="memory", verdict=Verdict.NOTE, text=text)
    text = f"{free // _MIB} MB free, limits allow {wanted.ram_mb} MB"
    if wanted.ram_mb * _MIB > free:
        return Finding(
            check="memory",
            verdict=Verdict.NOTE,
            text=f"{text}: a worker takes what fits",
            advice="p2pmoe limits set ram_mb=MB for less",
        )
    return Finding(check="memory", verdict=Verdict.OK, text=text)


def power(readings: Readings, wanted: Limits) -> Finding:
    """Say what the sensors tell of power, and what is assumed where they do not."""
    if readings.power is not Power.UNKNOWN:
        charge = readings.battery_percent
        more = "" if charge is None else f", battery {charge} %"
        text = f"on {readings.power}{more}"
        return Finding(check="power", verdict=Verdict.OK, text=text)
    if wanted.assume_power is not None:
        text = f"not told by this machine; taken to be {wanted.assume_power}"
        return Finding(check="power", verdict=Verdict.OK, text=text)
    return Finding(
        check="power",
        verdict=Verdict.NOTE,
        text="this machine does not tell whether it is on mains",
        advice="say it once: p2pmoe limits set assume_power=mains",
    )


def metered(readings: Readings, wanted: Limits) -> Finding:
    """Say whether traffic costs, and what is assumed where nobody tells."""
    if readings.is_metered is not None:
        text = "metered" if readings.is_metered else "not metered"
        return Finding(check="traffic", verdict=Verdict.OK, text=text)
    if wanted.assume_metered is not None:
        word = "metered" if wanted.assume_metered else "not metered"
        text = f"not told by this system; taken to be {word}"
        return Finding(check="traffic", verdict=Verdict.OK, text=text)
    return Finding(
        check="traffic",
        verdict=Verdict.NOTE,
        text="this system does not tell whether traffic costs",
        advice="say it once: p2pmoe limits set assume_network=unmetered",
    )


def heat(readings: Readings) -> Finding:
    """Say whether heat is measured."""
    if readings.temperature_c is None:
        text = "no temperature is told; heat is judged by how much slower calls become"
        return Finding(check="heat", verdict=Verdict.NOTE, text=text)
    text = f"{readings.temperature_c:.0f} °C"
    return Finding(check="heat", verdict=Verdict.OK, text=text)


def termux(find: Callable[[str], str | None] = shutil.which) -> Finding:
    """Look for the programs of Termux that a worker asks, on Android alone."""
    missing = [name for name in _TERMUX_PROGRAMS if find(name) is None]
    if not missing:
        text = "its programs for battery, Wi-Fi and wake lock are here"
        return Finding(check="termux", verdict=Verdict.OK, text=text)
    return Finding(
        check="termux",
        verdict=Verdict.WARNING,
        text=f"{', '.join(missing)} not found: power and network are not known",
        advice="pkg install termux-api, and install the app Termux:API",
    )


def worker(folder: Path) -> Finding:
    """Ask the worker that runs on a folder what it is doing."""
    try:
        told = ask_worker(folder, "status", wait_s=5.0)
    except WorkerNotRunning:
        text = f"none runs on {folder}"
        return Finding(check="worker", verdict=Verdict.NOTE, text=text)
    except (P2pmoeError, LedgerError) as error:
        return Finding(
            check="worker",
            verdict=Verdict.WARNING,
            text=str(error)[:_MAX_TEXT],
            advice=error.advice[:_MAX_TEXT],
        )
    state, reason = str(told.get("state", "")), str(told.get("reason", ""))
    text = f"{state.replace('_', ' ')}: {reason}"[:_MAX_TEXT]
    is_wrong = state in {"error", "kicked", "unreachable"}
    return Finding(
        check="worker",
        verdict=Verdict.WARNING if is_wrong else Verdict.OK,
        text=text,
        advice="p2pmoe status tells more" if is_wrong else "",
    )
