"""Times in which the network, not the workers, was at fault.

A window is everybody's (nobody could be reached) or one backbone's (it lied). What
would count against a worker within a window does not, and what was noted shortly before
one opened is taken back: an outage is seen some seconds after it began.

    our relay link is down               from 30 s before until 30 s after it is back
    half of the domains asked are silent the whole time of that canary
    a backbone was found wrong           an hour before and after, for its own word
    a backbone was lost                  30 s before and after, for its own word

At most 256 windows and 1,024 backbones are kept, the oldest go first. Times are
monotonic seconds. Pure. Source: design/06 ("Faults of the relay or the backbone never
count against a worker").
"""

from collections import deque
from dataclasses import dataclass

from relay.keys import PeerId

__all__ = ["BACKBONE_MARGIN_S", "RELAY_MARGIN_S", "Incidents", "Window"]

RELAY_MARGIN_S = 30.0
BACKBONE_MARGIN_S = 3600.0
_MAX_WINDOWS = 256
_MAX_BACKBONES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A span of time; `backbone` None: it is about everybody."""

    start: float
    end: float
    backbone: PeerId | None = None

    def covers(self, moment: float, backbone: PeerId | None) -> bool:
        """Tell whether a moment, of this backbone's word if it is one, lies in it."""
        is_meant = self.backbone is None or self.backbone == backbone
        return is_meant and self.start <= moment <= self.end


class Incidents:
    """All windows, the open one among them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._windows: deque[Window] = deque(maxlen=_MAX_WINDOWS)
        self._own: dict[PeerId, Window] = {}  # of backbones
        self._away_since: float | None = None

    def relay_is_away(self, now: float) -> Window:
        """Open the relay's window, which began before we saw it; return it."""
        if self._away_since is None:
            self._away_since = now - RELAY_MARGIN_S
        return Window(start=self._away_since, end=float("inf"))

    def relay_is_back(self, now: float) -> None:
        """Close it, some seconds after now: others come back later than we do."""
        if self._away_since is not None:
            end = now + RELAY_MARGIN_S
            self._windows.append(Window(start=self._away_since, end=end))
            self._away_since = None

    def most_were_silent(self, start: float, end: float) -> Window:
        """Note that too many were silent at once for it to be their fault."""
        window = Window(start=start, end=end)
        self._windows.append(window)
        return window

    def backbone_erred(self, backbone: PeerId, now: float) -> Window:
        """Note that a backbone was wrong: its word of this time does not count."""
        return self._of_backbone(backbone, now, BACKBONE_MARGIN_S)

    def backbone_is_away(self, backbone: PeerId, now: float) -> Window:
        """Note that a backbone was lost: whom it found silent may not have been."""
        return self._of_backbone(backbone, now, RELAY_MARGIN_S)

    def covers(self, moment: float, backbone: PeerId | None = None) -> bool:
        """Tell whether a moment lies in a window of everybody, or of this backbone."""
        if self._away_since is not None and moment >= self._away_since:
            return True
        if any(window.covers(moment, backbone) for window in self._windows):
            return True
        own = self._own.get(backbone) if backbone is not None else None
        return own is not None and own.covers(moment, backbone)

    def _of_backbone(self, backbone: PeerId, now: float, margin_s: float) -> Window:
        window = Window(start=now - margin_s, end=now + margin_s, backbone=backbone)
        known = self._own.pop(backbone, None)
        is_within = known is not None and known.end > window.end
        self._own[backbone] = known if known and is_within else window
        if len(self._own) > _MAX_BACKBONES:
            del self._own[next(iter(self._own))]
        return window
