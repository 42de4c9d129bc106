"""What a probe is to do, and what it found. Values only; seconds, bytes, counts."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from p2pmoe.errors import ConfigurationError
from p2pmoe.probe.delays import percentile
from relay.dial import Route
from relay.frame_types import NackReason
from relay.greetings import Welcome

__all__ = [
    "EXPIRES_SOON",
    "FrameFigures",
    "ProbePlan",
    "RelayReport",
]

EXPIRES_SOON: Final = dt.timedelta(days=14)
_MIN_FRAME_BYTES: Final = 8  # its number
_MAX_FRAMES: Final = 100_000
_MAX_FRAME_BYTES: Final = 65_535
_MAX_RATE: Final = 2_000
_MAX_S: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """How many frames, how many a second, how large.

    Raises:
        ConfigurationError: a number is out of range, or it would take over 10 minutes.
    """

    n_frames: int = 500
    frames_s: float = 100.0
    frame_bytes: int = 260

    def __post_init__(self) -> None:
        checks = (
            ("frames", self.n_frames, 1, _MAX_FRAMES),
            ("rate", self.frames_s, 0.1, _MAX_RATE),
            ("size", self.frame_bytes, _MIN_FRAME_BYTES, _MAX_FRAME_BYTES),
        )
        for name, value, least, most in checks:
            if not least <= value <= most:
                raise ConfigurationError(
                    f"--{name} {value} is out of range",
                    advice=f"give {least} to {most}",
                )
        if self.n_frames / self.frames_s > _MAX_S:
            raise ConfigurationError(
                f"{self.n_frames} frames at {self.frames_s:g} a second take too long",
                advice=f"ask for less than {_MAX_S // 60} minutes of frames",
            )


@dataclass(slots=True, kw_only=True)
class FrameFigures:
    """How the frames fared. `longest_age_ms`: at the relay, as the relay counts it.

    Every frame that was sent came back, or the relay said that it dropped it, or it was
    lost: nobody said anything within two seconds of the last.
    """

    n_sent: int = 0
    round_trips_s: list[float] = field(default_factory=list)
    dropped: dict[NackReason, int] = field(default_factory=dict)
    longest_age_ms: int = 0

    @property
    def n_back(self) -> int:
        """Frames that came back."""
        return len(self.round_trips_s)

    @property
    def n_dropped(self) -> int:
        """Frames of which the relay said that it dropped them."""
        return sum(self.dropped.values())

    @property
    def n_lost(self) -> int:
        """Frames of which nobody said anything."""
        return max(0, self.n_sent - self.n_back - self.n_dropped)

    def percentile_ms(self, share: float) -> float | None:
        """Return a percentile of the round trips; None if no frame came back."""
        if not self.round_trips_s:
            return None
        return percentile(self.round_trips_s, share) * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayReport:
    """One relay, as found. `joined_s`: from nothing to the welcome, all in all."""

    url: str
    route: Route
    welcome: Welcome
    is_pinned_key: bool
    joined_s: float
    frames: FrameFigures

    def certificate_left(self, now: dt.datetime) -> dt.timedelta | None:
        """Return how long the certificate is good; None where no date matters.

        That is a plaintext connection, and a relay's own key, which is pinned.
        """
        certificate = self.route.certificate
        if certificate is None or self.is_pinned_key:
            return None
        return certificate.not_after - now

    def problems(self, now: dt.datetime) -> list[str]:
        """Return what somebody should look at, each in one sentence."""
        found = []
        left = self.certificate_left(now)
        if left is not None and left < EXPIRES_SOON:
            found.append(f"the certificate is good for {left.days} days only: renew it")
        frames = self.frames
        if frames.n_dropped or frames.n_lost:
            found.append(
                f"{frames.n_dropped + frames.n_lost} of {frames.n_sent} frames did not "
                f"come back ({_causes(frames.dropped, frames.n_lost)})"
            )
        return found


def _causes(dropped: Mapping[NackReason, int], n_lost: int) -> str:
    parts = [
        f"{count} {reason.name.lower().replace('_', ' ')}"
        for reason, count in sorted(dropped.items())
    ]
    if n_lost:
        parts.append(f"{n_lost} unanswered")
    return ", ".join(parts)
