"""How reliably each worker is there: measured, in place of what is usual for its class.

Of every worker three sums are kept, which fade by half in 3 days of being watched: the
time that it was there, the time that it was watched, and how often it left. A class's
usual values count like one day of watching and one departure, so that one good evening
makes nobody a hub, and a laptop that never sleeps is taken for what it is within days.

Time while the market itself was down is not watched: nobody is absent in it.

Bounded: the 100,000 workers last seen. Pure; `now` is monotonic seconds.
Source: design/06, "Price" (availability of devices) and "Assignment" (time to loss).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.coverage import FULL_PERMILLE
from p2pmoe.market.devices import AVAILABILITY_PERMILLE, STAY_S, Device, departures_of
from relay.keys import PeerId

__all__ = ["Attendance", "Sums", "has_changed"]

_MAX_WORKERS = 100_000
_HALF_LIFE_S = 3 * 86_400.0
_PRIOR_S = 86_400.0
_PRIOR_DEPARTURES = 1.0
_LEAST_PERMILLE = 50
# A device is counted anew only for a difference that matters: its experts are ranked
# again each time.
_STEP_PERMILLE = 50
_STEP_FACTOR = 1.25


@dataclass(frozen=True, slots=True)
class Sums:
    """What was seen of one worker so far, faded."""

    there_s: float = 0.0
    watched_s: float = 0.0
    n_departures: float = 0.0

    def after(self, seconds: float, *, there: bool) -> "Sums":
        """Return the sums some seconds on."""
        fade = 0.5 ** (seconds / _HALF_LIFE_S)
        return Sums(
            there_s=self.there_s * fade + (seconds if there else 0.0),
            watched_s=self.watched_s * fade + seconds,
            n_departures=self.n_departures * fade,
        )

    def availability(self, device_class: DeviceClass) -> int:
        """Return the share of time that it is there, in per mille."""
        usual = AVAILABILITY_PERMILLE[device_class] / FULL_PERMILLE
        share = (_PRIOR_S * usual + self.there_s) / (_PRIOR_S + self.watched_s)
        return max(_LEAST_PERMILLE, min(FULL_PERMILLE, round(FULL_PERMILLE * share)))

    def departures(self, device_class: DeviceClass) -> int:
        """Return how often it leaves in 10^9 s of being there."""
        there_s = _PRIOR_DEPARTURES * STAY_S[device_class] + self.there_s
        return departures_of(there_s / (_PRIOR_DEPARTURES + self.n_departures))


@dataclass(slots=True)
class _Entry:
    sums: Sums
    is_there: bool
    since: float | None  # when the sums were last brought up to date, if in this run


class Attendance:
    """All workers' sums."""

    def __init__(self, known: Mapping[PeerId, Sums]) -> None:
        """Go on from the sums of an earlier run, all of whose workers are away now."""
        self._entries = {
            peer: _Entry(sums, is_there=False, since=None)
            for peer, sums in known.items()
        }

    def newest(self, most: int) -> list[tuple[PeerId, Sums]]:
        """Return the sums of the workers last seen, the last one last."""
        newest = islice(reversed(self._entries.items()), most)
        return [(peer, entry.sums) for peer, entry in newest][::-1]

    def came(self, peer: PeerId, now: float) -> None:
        """Note that a worker is there; it becomes the last seen."""
        entry = self._entries.pop(peer, None)
        if entry is None:
            entry = _Entry(Sums(), is_there=True, since=now)
        else:
            _bring_up(entry, now)
            entry.is_there = True
        self._entries[peer] = entry
        while len(self._entries) > _MAX_WORKERS:
            del self._entries[next(iter(self._entries))]

    def left(self, peer: PeerId, now: float) -> None:
        """Note that a worker is there no more, whatever the reason; once is enough."""
        entry = self._entries.get(peer)
        if entry is None or not entry.is_there:
            return
        _bring_up(entry, now)
        entry.is_there = False
        sums = entry.sums
        entry.sums = Sums(sums.there_s, sums.watched_s, sums.n_departures + 1.0)

    def stay(
        self, peer: PeerId, device_class: DeviceClass, now: float
    ) -> tuple[int, int]:
        """Return a worker's availability in per mille, and its departures in 10^9 s."""
        entry = self._entries.get(peer)
        if entry is None:
            return Sums().availability(device_class), Sums().departures(device_class)
        _bring_up(entry, now)
        sums = entry.sums
        return sums.availability(device_class), sums.departures(device_class)


def has_changed(device: Device, stay: tuple[int, int]) -> bool:
    """Tell whether a device's stay differs enough to count it anew."""
    availability, departures = stay
    low, high = sorted((departures, device.departures))
    moved = abs(availability - device.availability)
    return moved >= _STEP_PERMILLE or high > _STEP_FACTOR * low


def _bring_up(entry: _Entry, now: float) -> None:
    if entry.since is not None:
        seconds = max(0.0, now - entry.since)
        entry.sums = entry.sums.after(seconds, there=entry.is_there)
    entry.since = now
