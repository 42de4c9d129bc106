"""What replicas are paid for standing by, as a paper for the ledger.

Paid is a replica that was held from the beginning of an epoch to its end and whose last
check was passed. Of the pot H an expert with multiplier m, target T and coverage R gets
H m min(T, R) / sum(m T); R counts here the domains that did hold it throughout. Each
domain's part is split evenly among its own replicas: more identities in one domain get
no more. What an expert lacks in coverage stays in the pot. The amounts follow from the
paper, and the ledger works them out (ledger/standby.py).

Pure. Source: design/06, "Price"; ADR 49.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ledger.prices import ONE_Q16
from ledger.standby import (
    DOMAIN_LABEL_BYTES,
    MAX_STANDBY_HOLDINGS,
    ExpertScarcity,
    Holding,
    StandbyPaper,
    standby_hash,
)
from p2pmoe.market.pricing.epochs import Epoch
from p2pmoe.market.pricing.model import ModelPrices

__all__ = ["PaperTerms", "Replica", "SignedPaper", "draw_up_paper"]


@dataclass(frozen=True, slots=True, order=True)
class Replica:
    """One worker that stood by with one expert throughout an epoch."""

    expert: int  # packed
    worker: bytes
    domain: str


@dataclass(frozen=True, slots=True)
class SignedPaper:
    """A packed paper, the market's signature over it, and the end of its epoch."""

    raw: bytes
    signature: bytes
    to_us: int

    @property
    def name(self) -> bytes:
        """The paper's hash."""
        return standby_hash(self.raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTerms:
    """What papers of one market have in common.

    salt: secret and random; labels of domains say which are equal, and nothing else.
    """

    network: bytes
    standby_uc: int  # H: of one epoch, for the one model
    salt: bytes


def draw_up_paper(
    terms: PaperTerms,
    model: tuple[bytes, ModelPrices],
    price_table_hash: bytes,
    epoch: Epoch,
    replicas: Iterable[Replica],
) -> StandbyPaper | None:
    """Return the paper of one model (by its manifest hash) for an epoch that is over.

    None if nobody is to be paid. A paper holds 131,072 replicas: of more, the epoch
    draws those that are paid.
    """
    manifest_hash, prices = model
    known = {(r.expert, r.worker): r for r in replicas if r.expert in prices.rows}
    if not terms.standby_uc or not known:
        return None
    by_domain: defaultdict[tuple[int, str], list[Replica]] = defaultdict(list)
    for replica in _drawn(known.values(), epoch):
        by_domain[replica.expert, replica.domain].append(replica)
    coverage: defaultdict[int, int] = defaultdict(int)
    for expert, _ in by_domain:
        coverage[expert] += ONE_Q16
    return StandbyPaper(
        network=terms.network,
        manifest_hash=manifest_hash,
        epoch=epoch.number,
        from_us=epoch.from_us,
        to_us=epoch.to_us,
        price_table_hash=price_table_hash,
        pot_uc=terms.standby_uc,
        experts=tuple(
            ExpertScarcity(
                expert=row.expert,
                demand=prices.paid.recent.get(row.expert, 0),
                multiplier=row.multiplier,
                target=row.target * ONE_Q16,
                coverage=coverage[row.expert],
            )
            for row in prices.rows.values()
        ),
        holdings=_shares(terms.salt, by_domain.values()),
    )


def _shares(salt: bytes, domains: Iterable[list[Replica]]) -> tuple[Holding, ...]:
    """Return every replica's share of its domain, in the paper's order."""
    holdings = [
        Holding(
            expert=replica.expert,
            worker=replica.worker,
            domain=_label(salt, replica.domain),
            share=ONE_Q16 // len(replicas),
        )
        for replicas in domains
        for replica in replicas
        if len(replicas) <= ONE_Q16
    ]
    return tuple(sorted(holdings, key=lambda each: (each.expert, each.worker)))


def _drawn(replicas: Iterable[Replica], epoch: Epoch) -> list[Replica]:
    """Return as many as a paper holds, other ones in each epoch."""
    found = list(replicas)
    if len(found) <= MAX_STANDBY_HOLDINGS:
        return found
    number = epoch.number.to_bytes(4, "big")

    def lot(replica: Replica) -> bytes:
        name = replica.expert.to_bytes(4, "big") + replica.worker
        return hashlib.blake2b(name, digest_size=16, key=number).digest()

    return sorted(found, key=lot)[:MAX_STANDBY_HOLDINGS]


def _label(salt: bytes, domain: str) -> bytes:
    text = domain.encode("utf-8", "surrogatepass")
    return hashlib.sha256(salt + text).digest()[:DOMAIN_LABEL_BYTES]
