"""One network's keys, prices, grants and vouchers, made small for ledger tests.

Everything is derived from a seed, so that the same test sees the same bytes. Times are
integers that the test moves by hand.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.accounts import AccountKind
from ledger.balances import balances
from ledger.claims import Filed, GrantOrder, IssuedGrant
from ledger.database import LedgerIdentity
from ledger.desk import Desk
from ledger.grant import Grant
from ledger.leaf import Leaf
from ledger.policy import Policy
from ledger.prices import PriceTable, sign_price_table
from ledger.settlement import GrantPolicy
from ledger.store import Store, StoreSettings
from ledger.tally import TabTerms, Tally
from ledger.voucher import SignedVoucher, Voucher, sign_voucher
from ledger.writer import WriterSettings

__all__ = [
    "DAY_US",
    "HOUR_US",
    "NOVEMBER_US",
    "Party",
    "TabSide",
    "World",
    "WorldClock",
    "held",
    "on_desk",
    "paper_tab",
    "seeded_key",
]

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
NOVEMBER_US = 1_793_491_200_000_000  # 2026-11-01T00:00:00Z
T = TypeVar("T")


def seeded_key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())


def held(store: Store, kind: AccountKind) -> int:
    """What all accounts of a kind hold, in micro-credits."""
    with store.reader().session() as connection:
        return sum(b.balance_uc for b in balances(connection) if b.kind == kind)


def on_desk(store: Store, what: Callable[[Desk], T]) -> T:
    """Run a job on the store's one writer and return what it says."""
    return store._writer.submit(what).result(60)


class Party:
    """A named key."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._key = seeded_key(name)
        self.id = self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


class World:
    """A network with a ledger, a market, a backbone and workers."""

    def __init__(self, *, base_uc: int = 10, epoch: int = 7) -> None:
        self.network = Party("network")
        self.ledger = Party("ledger")
        self.market = Party("market")
        self.backbone = Party("backbone")
        self.worker = Party("worker")
        self.manifest_hash = sha256(b"manifest").digest()
        self.prices = PriceTable(
            network=self.network.id,
            manifest_hash=self.manifest_hash,
            epoch=epoch,
            base_uc=base_uc,
            multipliers={1 << 16 | 3: 3 << 15},  # expert 1/3 costs 1.5
        )
        self.now_us = NOVEMBER_US
        self.n_requests = 0

    @property
    def identity(self) -> LedgerIdentity:
        return LedgerIdentity(
            network=self.network.id, ledger=self.ledger.id, market=self.market.id
        )

    def open(
        self,
        path: Path,
        *,
        credit_uc: int = 1_000_000_000,
        window_s: float = 0.0,
        terms: Policy | None = None,
        **policy: int,
    ) -> Store:
        """Open a store; `terms` count only for a new ledger."""
        settings = StoreSettings(
            policy=GrantPolicy(opening_credit_uc=credit_uc, **policy),
            terms=terms or Policy(),
            # Who waits on a busy machine is not told to try again.
            writer=WriterSettings(window_s=window_s, max_wait_s=600.0),
        )
        return Store(
            path,
            self.identity,
            sign=self.ledger.sign,
            wall_us=lambda: self.now_us,
            settings=settings,
        )

    def order(
        self,
        *,
        worker: Party | None = None,
        backbone: Party | None = None,
        ceiling_uc: int = 1_000_000,
        prices: PriceTable | None = None,
        request: int | None = None,
    ) -> GrantOrder:
        self.n_requests += 1
        table = (prices or self.prices).pack()
        return GrantOrder(
            request=self.n_requests if request is None else request,
            backbone=(backbone or self.backbone).id,
            worker=(worker or self.worker).id,
            ceiling_uc=ceiling_uc,
            price_table=table,
            price_signature=sign_price_table(table, self.market.sign),
        )

    def tab(
        self,
        issued: IssuedGrant,
        *,
        worker: Party | None = None,
        backbone: Party | None = None,
        tab: bytes = b"tab-0001",
    ) -> "TabSide":
        return TabSide(
            self,
            Grant.parse(issued.raw),
            worker=worker or self.worker,
            backbone=backbone or self.backbone,
            tab=tab,
        )


class WorldClock:
    """A world's time, as the clock that a service is given."""

    def __init__(self, world: World) -> None:
        self._world = world

    def wall_us(self) -> int:
        return self._world.now_us

    def monotonic(self) -> float:
        return self._world.now_us / 1e6


def paper_tab() -> "TabSide":
    """A tab of a new world, under a grant that no store knows of."""
    world = World()
    grant = Grant(
        network=world.network.id,
        manifest_hash=world.manifest_hash,
        worker=world.worker.id,
        backbone=world.backbone.id,
        price_table_hash=world.prices.content_hash,
        ceiling_uc=1_000_000,
        expiry_us=NOVEMBER_US,
        float_leaves=64,
        serial=bytes(8),
    )
    return world.tab(IssuedGrant(raw=grant.pack(), signature=bytes(64)))


@dataclass
class TabSide:
    """Both ends of one tab at once: serves, accepts, drafts, signs."""

    world: World
    grant: Grant
    worker: Party
    backbone: Party
    tab: bytes
    previous: Voucher | None = None
    leaves: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.terms = TabTerms(
            network=self.world.network.id,
            manifest_hash=self.world.manifest_hash,
            profile=2,
            worker=self.worker.id,
            backbone=self.backbone.id,
            tab=self.tab,
        )
        self.tally = Tally(self.terms, self.world.prices)

    def leaf(self, at: int, /, **changes: object) -> bytes:
        serving = at
        layer, expert, rows = serving % 3, serving % 5, serving % 4 + 1
        fields = {
            "tab": self.tab,
            "serving": serving,
            "request": 1000 + serving,
            "layer": layer,
            "expert": expert,
            "rows": rows,
            "price_epoch": self.world.prices.epoch,
            "x_hash": sha256(b"x%d" % serving).digest()[:16],
            "out_hash": sha256(b"y%d" % serving).digest()[:16],
            "nonce": serving.to_bytes(8, "big"),
            "amount_uc": self.world.prices.amount(layer, expert, rows),
        }
        return Leaf(**{**fields, **changes}).pack()  # type: ignore[arg-type]

    def serve(self, *servings: int) -> bytes:
        block = b"".join(self.leaf(serving) for serving in servings)
        self.tally.add(block)
        self.leaves |= {s: self.leaf(s) for s in servings}
        return block

    def draft(self, *, final: bool = False) -> Voucher:
        voucher = self.tally.draft(
            self.previous,
            grant_hash=self.grant.content_hash,
            issued_us=self.world.now_us,
            final=final,
        )
        self.previous = voucher
        return voucher

    def sign(self, voucher: Voucher) -> SignedVoucher:
        raw = voucher.pack()
        return SignedVoucher(
            raw=raw,
            worker_signature=sign_voucher(raw, self.worker.sign),
            backbone_signature=sign_voucher(raw, self.backbone.sign),
        )

    def one_sided(
        self, *servings: int, n_skipped: int = 1
    ) -> tuple[SignedVoucher, bytes]:
        """A final that only the backbone signed, and the leaves it adds.

        Its number leaves room for a proposal that the worker may have signed.
        """
        block = self.serve(*servings)
        drafted = self.draft(final=True)
        final = replace(
            drafted,
            number=drafted.number + n_skipped,
            previous=drafted.previous
            if drafted.number > 1
            else sha256(b"lost").digest(),
        )
        self.previous = final
        raw = final.pack()
        signed = SignedVoucher(
            raw=raw,
            worker_signature=b"",
            backbone_signature=sign_voucher(raw, self.backbone.sign),
        )
        return signed, block

    def worker_half(self, final: SignedVoucher) -> SignedVoucher:
        """The same final with the worker's signature alone."""
        return SignedVoucher(
            raw=final.raw,
            worker_signature=sign_voucher(final.raw, self.worker.sign),
            backbone_signature=b"",
        )

    def forged(self) -> SignedVoucher:
        """Return another voucher like the last, with signatures of nobody."""
        assert self.previous is not None
        other = replace(self.previous, issued_us=self.previous.issued_us + 1)
        return SignedVoucher(
            raw=other.pack(), worker_signature=bytes(64), backbone_signature=bytes(64)
        )

    def next(self, *servings: int, final: bool = False) -> tuple[SignedVoucher, bytes]:
        block = self.serve(*servings)
        return self.sign(self.draft(final=final)), block

    def file(self, store: Store, *servings: int, final: bool = False) -> Filed:
        signed, block = self.next(*servings, final=final)
        return store.file(signed, block, self.backbone.id).result(60)
