"""How this worker stands with the market, as the market told it last; no I/O.

The market's own words are shown as they came. While it has said nothing, there is
nothing to show. A kicked worker does not offer: a suspended one until its time is over,
a refused one never again in this process.
"""

import logging

from mobile_worker.messages import Standing
from mobile_worker.standing import StandingState

__all__ = ["OwnStanding"]

logger = logging.getLogger("p2pmoe.contribute")

_MINUTE_S = 60


class OwnStanding:
    """The last STANDING; times are monotonic seconds."""

    def __init__(self) -> None:
        """Begin without one."""
        self.state: StandingState | None = None
        self.detail = ""
        self.passes = self.mismatches = self.timeouts = 0
        self._until: float | None = None  # None: it does not end by itself

    def said(self, standing: Standing, now: float) -> None:
        """Take a STANDING of the market; of an unknown state only the figures."""
        self.passes = standing.passes
        self.mismatches = standing.mismatches
        self.timeouts = standing.timeouts
        try:
            state = StandingState(standing.state)
        except ValueError:
            logger.info("the market tells of standing %d", standing.state)
            return
        if state != self.state:
            level = logging.WARNING if state.is_kicked else logging.INFO
            name = state.name.lower()
            logger.log(level, "standing with the market: %s, %s", name, standing.detail)
        self.state, self.detail = state, standing.detail
        self._until = now + standing.until_s if standing.until_s else None

    @property
    def probation(self) -> str:
        """How far its checks are, in the market's words; "" if it is past them."""
        return self.detail if self.state is StandingState.PROBATION else ""

    @property
    def kicked(self) -> str:
        """Why it is given no leases, in the market's words; "" if it is."""
        is_kicked = self.state is not None and self.state.is_kicked
        return (self.detail or "refused by the market") if is_kicked else ""

    def may_offer(self, now: float) -> bool:
        """Tell whether an offer could be taken."""
        if self.state is None or not self.state.is_kicked:
            return True
        return self._until is not None and now >= self._until

    def ends_when(self, now: float) -> str:
        """Return in words when probation, or being kicked, is over; "" if neither."""
        if self.state is StandingState.PROBATION:
            return "after enough checks have passed, by themselves"
        if not self.kicked:
            return ""
        if self._until is None:
            return "never: this key is refused"
        minutes = max(1, -int(-(self._until - now) // _MINUTE_S))
        return f"in {minutes} {'minute' if minutes == 1 else 'minutes'}"
