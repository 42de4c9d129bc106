"""The governor of one worker: limits, sensors, policy and a person's wishes, as one.

`tick` says what holds now; who acts on it is the worker's `Pausing`. A person's pause,
the policy's and a drain are kept apart: resuming ends the person's pause and overrides
what else holds now, once, and nothing else ends or begins a pause of the person's.
Hubs have no rules of power. All methods are for the trio thread.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import trio

from mobile_worker.clock import Clock
from mobile_worker.governor.limits import Limits, PowerKind, PowerRule
from mobile_worker.governor.limits_file import write_limits
from mobile_worker.governor.pause import Cause, Pause
from mobile_worker.governor.policy import Decision, Policy
from mobile_worker.governor.presets import UNLIMITED
from mobile_worker.governor.readings import NOTHING_KNOWN, Readings
from mobile_worker.governor.remembered import Remembered
from mobile_worker.governor.rules import Moment
from mobile_worker.governor.sensors import NoSensors, Sensors
from mobile_worker.governor.slowdown import SlowdownWatch

__all__ = ["Governor", "GovernorParts", "local_time"]

_LOOK_S: Final = 2.0
_SAVE_S: Final = 30.0
_RATE_S: Final = 10.0


def local_time(wall_us: int) -> datetime:
    """Return a moment in this machine's time zone."""
    return datetime.fromtimestamp(wall_us / 1e6, UTC).astimezone()


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorParts:
    """What a governor works with. limits_file: where changed limits are written."""

    clock: Clock
    limits: Limits = UNLIMITED
    limits_file: Path | None = None
    record: Remembered = field(default_factory=lambda: Remembered(None))
    sensors: Sensors = field(default_factory=NoSensors)
    n_cpus: int = 1
    is_hub: bool = False
    local: Callable[[int], datetime] = local_time


class Governor:
    """See the module."""

    def __init__(self, parts: GovernorParts) -> None:
        self.readings: Readings = NOTHING_KNOWN
        self.decision = Decision()
        self.watch = SlowdownWatch()
        self._parts = parts
        self._limits = parts.limits
        self._policy = Policy(self._ruled(parts.limits), parts.n_cpus)
        self._looked_at = float("-inf")
        self._judged = Decision()  # without the person's own pause
        self._spent: deque[tuple[float, int, int]] = deque(maxlen=256)

    # What a person wishes.

    @property
    def limits(self) -> Limits:
        """The limits that hold, as asked for."""
        return self._limits

    def set_limits(self, limits: Limits) -> None:
        """Hold these limits from the next tick on, and write them down.

        Raises:
            LimitsRefused: the file cannot be written; the limits are as before.
        """
        if self._parts.limits_file is not None:
            write_limits(self._parts.limits_file, limits)
        self._limits = limits
        self._policy.change(self._ruled(limits))
        self._looked_at = float("-inf")

    def pause(self, for_s: float | None) -> None:
        """Pause as the person asks: for some seconds, or until it is resumed."""
        now_us = self._parts.clock.wall_us()
        self.record.pause(None if for_s is None else now_us + round(for_s * 1e6))
        self.record.save()  # at once: it outlives a crash

    def resume(self) -> None:
        """End the person's pause; override once what else holds now."""
        self.record.resume()
        self.record.save()
        self._policy.override()
        self._looked_at = float("-inf")

    # What is the case.

    @property
    def record(self) -> Remembered:
        """What is kept between runs."""
        return self._parts.record

    def spent(self, *, up_bytes: int = 0, down_bytes: int = 0) -> None:
        """Count bytes sent and received towards the day."""
        if up_bytes or down_bytes:
            self.record.add(n_bytes=up_bytes + down_bytes)
            now = self._parts.clock.monotonic()
            self._spent.append((now, up_bytes, down_bytes))

    def rates(self) -> tuple[float, float]:
        """Return bytes a second sent and received over the last 10 s."""
        since = self._parts.clock.monotonic() - _RATE_S
        while self._spent and self._spent[0][0] < since:
            self._spent.popleft()
        up = sum(up_bytes for _, up_bytes, _ in self._spent)
        down = sum(down_bytes for _, _, down_bytes in self._spent)
        return up / _RATE_S, down / _RATE_S

    def may_fetch(self) -> bool:
        """Say whether shards may be fetched now."""
        return not self.decision.pauses

    def fetched(self, n_bytes: int) -> None:
        """Count bytes of shards that came by other ways than the node's links."""
        self.spent(down_bytes=n_bytes)

    def computed(self, n_macs: int, compute_us: int) -> None:
        """Note what a call took: slower ones may mean heat."""
        self.watch.computed(self._parts.clock.monotonic(), n_macs, compute_us)

    def tick(self) -> Decision:
        """Say what holds now; sensors are looked at every 2 s."""
        now, wall_us = self._parts.clock.monotonic(), self._parts.clock.wall_us()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            self._look(now, wall_us)
        own = self._own_pause(now, wall_us)
        judged = self._judged
        pauses = judged.pauses if own is None else (own, *judged.pauses)
        self.decision = replace(judged, pauses=pauses)
        return self.decision

    def save(self) -> None:
        """Write down this day's use and the person's pause; blocking."""
        self.record.save()

    async def run(self) -> None:
        """Keep the slow sensors and the file up to date, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._parts.sensors.run)
            while True:
                await trio.sleep(_SAVE_S)
                await trio.to_thread.run_sync(self.record.save)

    def _look(self, now: float, wall_us: int) -> None:
        local = self._parts.local(wall_us)
        self.record.day_is(local.date().isoformat())
        self.readings = replace(
            self._parts.sensors.look(now), slowdown=self.watch.factor(now)
        )
        self._judged = self._policy.look(
            self.readings,
            Moment(now=now, local=local, day_bytes=self.record.day_bytes),
        )
        if self._judged.pauses:
            self.watch.forget()

    def _own_pause(self, now: float, wall_us: int) -> Pause | None:
        until_us = self.record.paused_until(wall_us)
        if until_us is None:
            return None
        reason = "by its user"
        if not until_us:
            return Pause(cause=Cause.USER, reason=reason, ends_when="it is resumed")
        return Pause(
            cause=Cause.USER,
            reason=reason,
            ends_when=f"at {self._parts.local(until_us):%H:%M}, or when it is resumed",
            ends_at=now + (until_us - wall_us) / 1e6,
        )

    def _ruled(self, limits: Limits) -> Limits:
        if not self._parts.is_hub:
            return limits
        return replace(limits, power=PowerRule(PowerKind.ANY))
