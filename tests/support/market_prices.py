"""Price tables, models and lease shares for the market's tests."""

from ledger.prices import PriceTable
from mobile_worker.session.identity import Identity
from p2pmoe.market.price import SignedPrices, signed_prices
from p2pmoe.market.pricing.drops import Drops
from p2pmoe.market.pricing.holdings import DomainHoldings, LeaseShare
from p2pmoe.market.pricing.model import ModelPrices, flat_rows

__all__ = ["EXPERTS", "flat_prices", "hold", "model_of", "share_of"]

EXPERTS = tuple(layer << 16 | index for layer in range(2) for index in range(4))


def flat_prices(
    market: Identity, manifest_hash: bytes, base_uc: int = 1
) -> SignedPrices:
    """Return a table in which every expert costs the same."""
    table = PriceTable(
        network=market.peer_id, manifest_hash=manifest_hash, epoch=1, base_uc=base_uc
    )
    return signed_prices(table, market.sign)


def model_of(experts: tuple[int, ...] = EXPERTS, base_uc: int = 100) -> ModelPrices:
    """Return a model that is new."""
    return ModelPrices(
        rows=flat_rows(experts),
        epoch=1,
        base_uc=base_uc,
        as_of_us=0,
        holdings=DomainHoldings(Drops()),
    )


def share_of(domain: str, *experts: int, availability: int = 900) -> LeaseShare:
    """Return what a lease of a worker in a domain adds."""
    return LeaseShare(domain, availability, frozenset(experts))


def hold(
    holdings: DomainHoldings,
    lease: str,
    share: LeaseShare,
    now_us: int = 0,
    *,
    by_market: bool = False,
) -> None:
    """Count a lease, named for short."""
    holdings.change(lease.encode(), share, now_us, by_market=by_market)
