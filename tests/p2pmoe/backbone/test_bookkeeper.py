"""The waiting side of the accounts: what is sent, in which order, and sent again."""

from pathlib import Path

import pytest

from ledger.spool import Spool
from mobile_worker import messages
from p2pmoe.backbone.bookkeeper import Bookkeeper, BookkeeperParts
from p2pmoe.backbone.journal import Journal
from p2pmoe.backbone.settlement import Settlement, SettlementTerms
from relay.keys import PeerId
from tests.support.inline_threads import inline_threads
from tests.support.money import NOW_US, TAB
from tests.support.trio_test import trio_test
from tests.support.vouchers import GRANT, MONEY, PRICES, TERMS, TabWorker, served

WORKER = PeerId(TERMS.worker)
LEDGER = PeerId(MONEY.ledger.peer_id)


class Rig:
    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.sent: list[tuple[PeerId, messages.Message]] = []
        self.spool = Spool(folder)
        self.settlement = Settlement(
            SettlementTerms(
                network=MONEY.network,
                manifest_hash=MONEY.manifest_hash,
                profile=TERMS.profile,
                backbone=PeerId(MONEY.backbone.peer_id),
            ),
            self.wall_us,
            lambda _peer, _payable: None,
        )
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
        self.worker = TabWorker()

    def monotonic(self) -> float:
        return self.now

    def wall_us(self) -> int:
        return NOW_US

    async def open(self) -> None:
        """Bring the accounts to where a worker may be asked."""
        await self.keeper.on_prices(*MONEY.signed_prices(PRICES))
        self.settlement.greeted(WORKER, TAB)
        self.keeper.request_grants()
        (asked,) = self.take(messages.GrantRequest)
        raw, signature = MONEY.signed_grant(GRANT)
        await self.keeper.on_grant(
            messages.Grant(
                request=asked.request, grant=raw, signature=signature, error=""
            )
        )
        assert self.settlement.room(WORKER) == 64
        self.take(messages.Grant)

    def serve(self) -> None:
        """Have two servings accepted."""
        slot = self.settlement.number(WORKER, 2, 3)
        assert slot is not None
        self.settlement.accept(served(slot.first, (3, (0, 2)), (5, (1,))))

    def take(self, kind: type) -> list:
        found = [m for _, m in self.sent if isinstance(m, kind)]
        self.sent = [(p, m) for p, m in self.sent if not isinstance(m, kind)]
        return found

    async def voucher(self) -> messages.Voucher:
        book = self.settlement.tabs[TAB].books[PRICES.epoch]
        leaves = b"".join(
            book._leaves[n]
            for first, last in book.unsigned
            for n in range(first, last + 1)
        )
        raw, signature = self.worker.voucher(leaves)
        message = messages.Voucher(
            voucher=raw, worker_signature=signature, leaves=leaves
        )
        await self.keeper.on_voucher(WORKER, message)
        return message


@trio_test
async def test_from_an_answer_to_a_filed_voucher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    assert not rig.keeper.is_settled()
    await rig.keeper.harvest()
    (accept,) = rig.take(messages.Accept)
    assert accept.ranges == ((0, 1),)
    assert len(rig.spool) == 3  # prices, grant, leaves: before the ACCEPT
    await rig.voucher()
    (answer,) = rig.take(messages.Countersign)
    assert answer.backbone_signature
    assert not answer.error
    (file,) = rig.take(messages.File)
    assert file.leaves
    assert not rig.keeper.is_settled()
    filed = messages.Filed(voucher_hash=answer.voucher_hash, status=0, reason="")
    await rig.keeper.on_filed(filed)
    assert rig.keeper.is_settled()
    assert rig.settlement.room(WORKER) == 64


@trio_test
async def test_what_is_not_answered_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    rig.take(messages.Accept)
    rig.now = 2.1
    rig.keeper.repeat()
    assert [a.ranges for a in rig.take(messages.Accept)] == [((0, 1),)]
    first = await rig.voucher()
    rig.take(messages.File)
    rig.now = 5.0
    rig.keeper.repeat()
    assert len(rig.take(messages.File)) == 1
    assert rig.take(messages.Accept) == []
    rig.take(messages.Countersign)
    await rig.keeper.on_voucher(WORKER, first)
    (same,) = rig.take(messages.Countersign)
    assert same.backbone_signature
    assert rig.take(messages.File) == []
    retry = messages.Filed(voucher_hash=same.voucher_hash, status=3, reason="later")
    await rig.keeper.on_filed(retry)
    assert not rig.keeper.is_settled()
    no = messages.Filed(voucher_hash=same.voucher_hash, status=2, reason="no")
    await rig.keeper.on_filed(no)
    assert rig.keeper.rejected == 1


@trio_test
async def test_refusals_name_the_voucher_and_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    rig.settlement.withhold(WORKER)
    await rig.voucher()
    (answer,) = rig.take(messages.Countersign)
    assert answer.backbone_signature == b""
    assert "withheld" in answer.error
    stranger = PeerId(MONEY.market.peer_id)
    nonsense = messages.Voucher(voucher=b"x", worker_signature=bytes(64), leaves=b"")
    await rig.keeper.on_voucher(stranger, nonsense)
    (answer,) = rig.take(messages.Countersign)
    assert answer.error


@trio_test
async def test_a_refused_grant_is_asked_for_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.keeper.on_prices(*MONEY.signed_prices(PRICES))
    rig.settlement.greeted(WORKER, TAB)
    rig.keeper.request_grants()
    (asked,) = rig.take(messages.GrantRequest)
    await rig.keeper.on_grant(
        messages.Grant(
            request=asked.request, grant=b"", signature=b"", error="no credit"
        )
    )
    rig.keeper.request_grants()
    assert rig.take(messages.GrantRequest) == []
    rig.now = 3.5
    rig.keeper.repeat()
    rig.keeper.request_grants()
    assert len(rig.take(messages.GrantRequest)) == 1


@trio_test
async def test_grants_are_handed_over_again_at_each_greeting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.keeper.greeted(WORKER)
    assert len(rig.take(messages.Grant)) == 1


@trio_test
async def test_a_restart_files_again_and_countersigns_what_was_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    message = await rig.voucher()
    rig.spool.close()
    second = Rig(tmp_path)
    await second.keeper.restore()
    second.now = 10.0
    second.keeper.repeat()
    assert len(second.take(messages.File)) == 1
    await second.keeper.on_voucher(WORKER, message)
    (answer,) = second.take(messages.Countersign)
    assert answer.backbone_signature
    totals = second.settlement.totals()
    assert (totals.accepted, totals.receipted) == (2, 2)
    assert not second.keeper.is_settled()
