"""Keys, price tables, grants and dispatches for tests of the accounts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ledger.grant import Grant, sign_grant
from ledger.prices import PriceTable, sign_price_table
from ledger.tally import TabTerms
from mobile_worker.messages.serving import CodedTensor, Dispatch, ExpertCall
from mobile_worker.servings.allowance import Allowance
from mobile_worker.session.identity import Identity

__all__ = ["MANIFEST", "NOW_US", "TAB", "Money", "dispatch_of"]

MANIFEST = b"m" * 32
TAB = b"tab-tab-"
NOW_US = 1_700_000_000_000_000


@dataclass
class Money:
    """A network with a worker, a backbone, a market and a ledger."""

    network: bytes = field(default_factory=lambda: Identity.generate().peer_id)
    worker: Identity = field(default_factory=Identity.generate)
    backbone: Identity = field(default_factory=Identity.generate)
    market: Identity = field(default_factory=Identity.generate)
    ledger: Identity = field(default_factory=Identity.generate)
    manifest_hash: bytes = MANIFEST

    def prices(self, epoch: int = 1, base_uc: int = 10) -> PriceTable:
        return PriceTable(
            network=self.network,
            manifest_hash=self.manifest_hash,
            epoch=epoch,
            base_uc=base_uc,
            multipliers={(1 << 16) | 3: 2 << 16},
        )

    def signed_prices(self, table: PriceTable) -> tuple[bytes, bytes]:
        return table.pack(), sign_price_table(table.pack(), self.market.sign)

    def grant(
        self,
        table: PriceTable,
        *,
        ceiling_uc: int = 10**9,
        float_leaves: int = 64,
        serial: int = 0,
        **changes: object,
    ) -> Grant:
        values: dict[str, object] = {
            "network": self.network,
            "manifest_hash": self.manifest_hash,
            "worker": self.worker.peer_id,
            "backbone": self.backbone.peer_id,
            "price_table_hash": table.content_hash,
            "ceiling_uc": ceiling_uc,
            "expiry_us": NOW_US + 3_600_000_000,
            "float_leaves": float_leaves,
            "serial": serial.to_bytes(8, "big"),
        }
        return Grant(**(values | changes))  # type: ignore[arg-type]

    def signed_grant(self, grant: Grant) -> tuple[bytes, bytes]:
        return grant.pack(), sign_grant(grant.pack(), self.ledger.sign)

    def allowance(self, table: PriceTable, **changes: object) -> Allowance:
        grant = self.grant(table, **changes)  # type: ignore[arg-type]
        return Allowance(grant=grant, name=grant.content_hash, prices=table)

    def terms(self, *, profile: int = 1, tab: bytes = TAB) -> TabTerms:
        return TabTerms(
            network=self.network,
            manifest_hash=self.manifest_hash,
            profile=profile,
            worker=self.worker.peer_id,
            backbone=self.backbone.peer_id,
            tab=tab,
        )


def dispatch_of(
    first: int = 0,
    experts: Sequence[int] = (0,),
    *,
    rows: int = 1,
    epoch: int = 1,
    **changes: object,
) -> Dispatch:
    """Return a small dispatch: `rows` rows of 32, each expert gets all of them."""
    values: dict[str, object] = {
        "request": 1000 + first,
        "tab": TAB,
        "first_serving": first,
        "layer": 1,
        "deadline_ms": 5000,
        "price_epoch": epoch,
        "nonce": b"nonce-00",
        "profile": 1,
        "n_embd": 32,
        "coded": CodedTensor(codes=bytes(32 * rows), scales=bytes(4 * rows)),
        "floats": None,
        "n_rows": rows,
        "calls": tuple(
            ExpertCall(index=index, rows=tuple(range(rows))) for index in experts
        ),
    }
    return Dispatch(**(values | changes))  # type: ignore[arg-type]
