"""How far the start has come: loading, warming, covering, ready, draining.

`covered` is the share of routed experts that are in our RAM or have a live holder.
READY is reached at the wanted share; with a disk behind the experts it is also reached
when the share has not grown for a while: what is there, is there, and the rest can be
read. Without a disk, readiness falls when the share does: it is COVERING again until
the experts are back, so that whoever balances load sends requests elsewhere. Those that
come all the same are taken, once it was ready for the first time, and fare as the
policy for missing experts says. Losing the model file undoes readiness where nobody
else has the experts: see `with_damage`. Pure; times are monotonic seconds.
"""

from dataclasses import replace

from p2pmoe.backbone.generation import Phase, Readiness

__all__ = ["ReadinessGate", "with_damage"]

PATIENCE_S = 30.0


class ReadinessGate:
    """The phase and the share covered."""

    def __init__(self, *, wanted: float, has_disk: bool) -> None:
        """Begin loading; `wanted` is a share, 0 to 1."""
        self._wanted = wanted
        self._has_disk = has_disk
        self._phase = Phase.LOADING
        self._covered = 0.0
        self._grew_at: float | None = None
        self._was_ready = False

    @property
    def phase(self) -> Phase:
        """The phase now."""
        return self._phase

    def warming(self) -> None:
        """The weights are loaded; use is being measured, experts are being read."""
        self._phase = Phase.WARMING

    def cover(self, share: float, now: float) -> None:
        """Take the covered share; may become READY, or COVERING again."""
        if self._phase is Phase.DRAINING or (
            self._phase is Phase.READY and (self._has_disk or share >= self._wanted)
        ):
            self._covered = share
            return
        self._phase = Phase.COVERING
        if self._grew_at is None or share > self._covered:
            self._grew_at = now
        self._covered = share
        waited = now - self._grew_at
        if share >= self._wanted or (self._has_disk and waited >= PATIENCE_S):
            self._phase = Phase.READY
            self._was_ready = True

    def draining(self) -> None:
        """No new requests from now on."""
        self._phase = Phase.DRAINING

    def readiness(self) -> Readiness:
        """Return the answer of `/readyz`."""
        detail = ""
        if self._phase is Phase.COVERING:
            detail = f"covering {self._covered:.0%}"
        return Readiness(
            phase=self._phase,
            covered=self._covered,
            detail=detail,
            was_ready=self._was_ready,
        )


def with_damage(now: Readiness, damage: str, *, has_others: bool) -> Readiness:
    """Return the answer of `/readyz` with what can no longer be read of the model.

    `damage` is empty if nothing is. A network (`has_others`) may have what is lost.
    """
    if not damage or now.phase is not Phase.READY:
        return now
    return replace(now, detail=damage, is_damaged=not has_others)
