"""A backbone's accounts over a spool, for tests of tabs that their workers lost."""

from collections.abc import Callable
from pathlib import Path

from ledger.spool import Spool
from mobile_worker import messages
from p2pmoe.backbone.bookkeeper import Bookkeeper, BookkeeperParts
from p2pmoe.backbone.journal import Journal
from p2pmoe.backbone.settlement import Settlement, SettlementTerms
from relay.keys import PeerId
from tests.support.money import NOW_US, TAB
from tests.support.vouchers import GRANT, MONEY, PRICES, TERMS, served

__all__ = ["LEDGER", "WORKER", "LostTabRig"]

WORKER = PeerId(TERMS.worker)
LEDGER = PeerId(MONEY.ledger.peer_id)
GrantFor = Callable[[messages.GrantRequest], tuple[bytes, bytes]]


def _signed_grant(_: messages.GrantRequest) -> tuple[bytes, bytes]:
    return MONEY.signed_grant(GRANT)


class LostTabRig:
    """One run of a backbone over a spool, and what it sent."""

    def __init__(self, folder: Path, now: float = 0.0) -> None:
        self.now = now
        self.sent: list[tuple[PeerId, messages.Message]] = []
        self._grant_for: GrantFor | None = None
        self.asked: list[messages.GrantRequest] = []  # by what `later` did
        self.spool = Spool(folder)
        terms = SettlementTerms(
            network=MONEY.network,
            manifest_hash=MONEY.manifest_hash,
            profile=TERMS.profile,
            backbone=PeerId(MONEY.backbone.peer_id),
        )
        self.settlement = Settlement(terms, self.wall_us, lambda *_: None)
        self.keeper = Bookkeeper(
            BookkeeperParts(
                send=lambda peer, message: self.sent.append((peer, message)),
                settlement=self.settlement,
                journal=Journal(self.spool, MONEY.backbone.peer_id),
                sign=MONEY.backbone.sign,
                clock=self,
                market=PeerId(MONEY.market.peer_id),
                ledger=LEDGER,
            )
        )

    def monotonic(self) -> float:
        return self.now

    def wall_us(self) -> int:
        return NOW_US + int(self.now * 1e6)

    async def served(self, grant_for: GrantFor | None = None) -> None:
        """Have two servings accepted; none is in a voucher."""
        self._grant_for = grant_for
        await self.keeper.on_prices(*MONEY.signed_prices(PRICES))
        self.settlement.greeted(WORKER, TAB)
        self.keeper.request_grants()
        (asked,) = self.of(messages.GrantRequest)
        raw, signature = (grant_for or _signed_grant)(asked)
        grant = messages.Grant(
            request=asked.request, grant=raw, signature=signature, error=""
        )
        await self.keeper.on_grant(grant)
        slot = self.settlement.number(WORKER, 2, 3)
        assert slot is not None
        self.settlement.accept(served(slot.first, (3, (0, 2)), (5, (1,))))
        await self.keeper.harvest()

    async def later(self, seconds: float, *, granting: bool = True) -> None:
        """Let time pass; the ledger answers what it is asked for, if it is there."""
        self.now += seconds
        await self.keeper._finish_lost()
        asked = [m for _, m in self.sent if isinstance(m, messages.GrantRequest)]
        self.asked += asked
        self.sent = [(p, m) for p, m in self.sent if m not in asked]
        if granting and asked:
            for request in asked:
                raw, signature = (self._grant_for or self._exact_grant)(request)
                answer = messages.Grant(
                    request=request.request, grant=raw, signature=signature, error=""
                )
                await self.keeper.on_grant(answer)
            await self.keeper._finish_lost()
        self.keeper.repeat()

    def _exact_grant(self, request: messages.GrantRequest) -> tuple[bytes, bytes]:
        return MONEY.signed_grant(
            MONEY.grant(
                PRICES,
                ceiling_uc=request.ceiling_uc,
                expiry_us=self.wall_us() + 3_600_000_000,
                serial=request.request,
            )
        )

    def of(self, kind: type, peer: PeerId | None = None) -> list:
        found = [m for p, m in self.sent if isinstance(m, kind) and peer in {None, p}]
        self.sent = []
        return found

    def book(self):
        return self.settlement.tabs[TAB].books[PRICES.epoch]
