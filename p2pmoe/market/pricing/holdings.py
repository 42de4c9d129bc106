"""Coverage for money: what every failure domain holds of a model, and lately held.

Kept while leases change: each lease adds its worker's availability to its domain, for
each expert that is live. The coverage of an expert is then the sum over domains of
min(1, sum of availability). Where a domain gave something up by itself, it counts with
the most that it held, for as long as it had held it (`drops.py`) and has had any live
lease of the model since the last look: nobody who stays gains by dropping, and nobody's
price follows its own drop. A domain that is gone altogether does not count.

A change costs the size of the lease that changed, a look the number of experts and of
drops. Pure. Source: design/06; ADR 49.
"""

from dataclasses import dataclass

from p2pmoe.market.coverage import FULL_PERMILLE
from p2pmoe.market.pricing.drops import WINDOW_US, Drop, Drops

__all__ = ["NOTHING", "Coverage", "DomainHoldings", "LeaseShare"]


@dataclass(frozen=True, slots=True)
class LeaseShare:
    """What one lease adds: its worker's domain and availability, and live experts."""

    domain: str
    availability: int  # per mille
    experts: frozenset[int]  # packed


NOTHING = LeaseShare("", 0, frozenset())
_NEVER = (0, 0)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of one expert, per mille: what counts, and what of it is live now."""

    counted: int = 0
    live: int = 0
    n_domains: int = 0


class DomainHoldings:
    """The live shares of one model's leases, by expert and domain."""

    def __init__(self, drops: Drops) -> None:
        self.drops = drops
        self._shares: dict[bytes, LeaseShare] = {}
        # By expert and domain: the sum, and since when it has not been 0.
        self._sums: dict[int, dict[str, tuple[int, int]]] = {}
        self._live: dict[int, int] = {}  # by expert: coverage now, per mille
        self._n_live: dict[str, int] = {}  # (lease, expert) pairs of a domain
        self._were_there: set[str] = set()  # since `coverage` was asked for last

    def share_of(self, lease_id: bytes) -> LeaseShare:
        """Return what a lease adds now."""
        return self._shares.get(lease_id, NOTHING)

    def change(
        self, lease_id: bytes, share: LeaseShare, now_us: int, *, by_market: bool
    ) -> None:
        """Count a lease as it is now.

        What it adds less than before is remembered as dropped, unless the market took
        it. A worker that is counted to another domain has left the one before.
        """
        before = self._shares.pop(lease_id, NOTHING)
        if share.experts:
            self._shares[lease_id] = share
        if not before.experts or not share.experts or before.domain == share.domain:
            domain = before.domain if before.experts else share.domain
            self._shift(domain, before, share, now_us, by_market=by_market)
        else:
            self._shift(before.domain, before, NOTHING, now_us, by_market=by_market)
            self._shift(share.domain, NOTHING, share, now_us, by_market=by_market)

    def look(self) -> dict[int, Coverage]:
        """Return the coverage of each expert that anybody holds or lately held.

        Whoever was there since the last look counts: to be away just when prices are
        looked at gains nothing.
        """
        there, self._were_there = self._were_there, set(self._n_live)
        held_back: dict[int, int] = {}
        for expert, domain, permille in self.drops.largest():
            if domain in there or domain in self._n_live:
                now, _ = self._sums.get(expert, {}).get(domain, _NEVER)
                missing = min(FULL_PERMILLE, permille) - min(FULL_PERMILLE, now)
                if missing > 0:
                    held_back[expert] = held_back.get(expert, 0) + missing
        found = {}
        for expert in self._sums.keys() | held_back.keys():
            live, n_domains = self._live.get(expert, 0), len(self._sums.get(expert, ()))
            counted = live + held_back.get(expert, 0)
            found[expert] = Coverage(counted, live, n_domains)
        return found

    def _shift(
        self,
        domain: str,
        before: LeaseShare,
        after: LeaseShare,
        now_us: int,
        *,
        by_market: bool,
    ) -> None:
        if before.availability == after.availability:
            changed = before.experts ^ after.experts
        else:
            changed = before.experts | after.experts
        for expert in changed:
            delta = after.availability * (expert in after.experts)
            delta -= before.availability * (expert in before.experts)
            self._add(expert, domain, delta, now_us, by_market=by_market)
        n_live = self._n_live.get(domain, 0) + len(after.experts) - len(before.experts)
        if n_live:
            self._n_live[domain] = n_live
            self._were_there.add(domain)
        else:
            self._n_live.pop(domain, None)

    def _add(
        self, expert: int, domain: str, delta: int, now_us: int, *, by_market: bool
    ) -> None:
        """Change one domain's sum of one expert, and remember what it gave up."""
        sums = self._sums.setdefault(expert, {})
        held, since_us = sums.get(domain, (0, now_us))
        if delta < 0 and by_market:
            self.drops.forget(expert, domain)
        elif delta < 0 and now_us > since_us:
            until_us = now_us + min(WINDOW_US, now_us - since_us)
            self.drops.note(Drop(expert, domain, until_us, min(FULL_PERMILLE, held)))
        change = min(FULL_PERMILLE, held + delta) - min(FULL_PERMILLE, held)
        self._live[expert] = self._live.get(expert, 0) + change
        if held + delta:
            sums[domain] = (held + delta, since_us)
        else:
            del sums[domain]
            if not sums:
                del self._sums[expert], self._live[expert]
