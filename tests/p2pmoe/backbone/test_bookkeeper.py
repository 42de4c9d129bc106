"""The waiting side of the accounts: what is sent, in which order, and sent again."""

import dataclasses
from hashlib import sha256
from pathlib import Path

import pytest
import trio

from ledger.errors import RemoteError, SpoolFull
from ledger.leaf import Leaf
from ledger.spool import Spool
from ledger.voucher import voucher_hash
from mobile_worker import messages
from mobile_worker.errors import SendQueueFull
from mobile_worker.servings.tab import _VOUCHER_S as VOUCHER_S
from p2pmoe.backbone.bookkeeper import Bookkeeper, BookkeeperParts
from p2pmoe.backbone.books import build_leaves
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
            lambda _peer, _means: None,
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
async def test_the_rows_of_what_was_accepted_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    book = rig.settlement.tabs[TAB].books[PRICES.epoch]
    for serving, raw in book._leaves.items():
        question = messages.Open(voucher_hash=bytes(32), tab=TAB, serving=serving)
        opened = rig.keeper.on_open(question)
        assert sha256(opened.rows).digest()[:16] == Leaf.parse(raw).x_hash
    other = dataclasses.replace(question, serving=9)
    assert rig.keeper.on_open(other).reason == "not kept any more"


@trio_test
async def test_a_serving_is_registered_within_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the first filing is lost: design/06, before the beacon speaks."""
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    rig.now = VOUCHER_S  # a worker proposes no later than this after its answer
    await rig.voucher()
    assert rig.take(messages.File)  # at once; and lost
    while not rig.take(messages.File):
        rig.now += 0.5
        rig.keeper.repeat()
    assert rig.now <= 10.0


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
    rig.now = 5.2
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
    assert rig.keeper.filings.n_rejected == 1


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
async def test_grants_of_an_earlier_run_are_handed_over_at_the_greeting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.spool.close()
    second = Rig(tmp_path)
    await second.keeper.restore()
    await second.keeper.on_prices(*MONEY.signed_prices(PRICES))
    second.settlement.greeted(WORKER, b"new tab!")
    assert second.settlement.room(WORKER) == 64
    second.keeper.greeted(WORKER)
    (handed,) = second.take(messages.Grant)
    raw, signature = MONEY.signed_grant(GRANT)
    assert (handed.grant, handed.signature, handed.error) == (raw, signature, "")
    assert second.take(messages.GrantRequest) == []
    second.wall_us = lambda: GRANT.expiry_us
    second.keeper.greeted(WORKER)
    assert second.take(messages.Grant) == []
    assert second.keeper._grants == {}  # an expired one is not kept either
    second.spool.close()


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


@trio_test
async def test_b34_a_voucher_that_differs_from_our_leaves_is_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    leaves = build_leaves(served(0, (3, (0, 2)), (5, (1,))), PRICES)
    lies = (
        {"root": bytes(32)},
        {"amount_uc": 51},
        {"rows": 9},
        {"ranges": ((0, 0), (2, 2))},
        {"number": 2, "previous": b"p" * 32, "final": True, "profile": 0},
        {"price_epoch": 7},
        {"tab": b"another!"},
    )
    for lie in lies:
        raw, signature = TabWorker().voucher(leaves, **lie)
        await rig.keeper.on_voucher(
            WORKER,
            messages.Voucher(voucher=raw, worker_signature=signature, leaves=leaves),
        )
        (answer,) = rig.take(messages.Countersign)
        assert answer.error
        assert answer.backbone_signature == b""
        assert answer.voucher_hash == voucher_hash(raw)
    assert rig.take(messages.File) == []
    await rig.voucher()  # the truth is signed all the same
    (answer,) = rig.take(messages.Countersign)
    assert answer.backbone_signature


@trio_test
async def test_another_workers_voucher_for_a_tab_is_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    leaves = build_leaves(served(0, (3, (0, 2)), (5, (1,))), PRICES)
    raw, signature = TabWorker().voucher(leaves)
    stolen = messages.Voucher(voucher=raw, worker_signature=signature, leaves=leaves)
    await rig.keeper.on_voucher(PeerId(MONEY.market.peer_id), stolen)
    (answer,) = rig.take(messages.Countersign)
    assert answer.error == "a voucher for no tab of this worker"


@trio_test
async def test_an_accept_lost_in_a_restart_is_sent_when_the_worker_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()  # durable; killed before the ACCEPT has left
    rig.spool.close()
    second = Rig(tmp_path)
    await second.keeper.restore()
    assert second.take(messages.Accept) == []
    second.settlement.greeted(WORKER, b"new tab!")  # as its worker does then
    second.keeper.greeted(WORKER)
    (accept,) = second.take(messages.Accept)
    assert (accept.tab, accept.ranges) == (TAB, ((0, 1),))
    totals = second.settlement.totals()
    assert (totals.accepted, totals.unsigned_at_kill) == (2, 2)
    final = build_leaves(served(0, (3, (0, 2)), (5, (1,))), PRICES)
    raw, signature = second.worker.voucher(final, final=True)
    await second.keeper.on_voucher(
        WORKER,
        messages.Voucher(voucher=raw, worker_signature=signature, leaves=final),
    )
    (answer,) = second.take(messages.Countersign)
    assert answer.backbone_signature
    totals = second.settlement.totals()
    assert (totals.accepted, totals.receipted, totals.unsigned_at_kill) == (2, 2, 0)
    second.spool.close()


@trio_test
async def test_accepted_is_receipted_and_unsigned_after_a_tab_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    await rig.voucher()
    rig.serve()
    await rig.keeper.harvest()
    rig.serve()  # accepted, not even a leaf yet
    assert rig.settlement.is_pending()
    rig.settlement.lost(WORKER)  # kill -9
    await rig.keeper.harvest()
    totals = rig.settlement.totals()
    assert (totals.accepted, totals.receipted, totals.unsigned_at_kill) == (6, 2, 4)
    rig.settlement.greeted(WORKER, b"new tab!")
    totals = rig.settlement.totals()
    assert totals.accepted == totals.receipted + totals.unsigned_at_kill
    assert not rig.settlement.is_pending()  # nobody is left to sign for them


@trio_test
async def test_a_replaced_tab_still_gets_its_final_voucher_and_then_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    await rig.voucher()
    (answer,) = rig.take(messages.Countersign)
    filed = messages.Filed(voucher_hash=answer.voucher_hash, status=0, reason="")
    await rig.keeper.on_filed(filed)
    rig.settlement.greeted(WORKER, b"new tab!")
    await rig.keeper._forget_complete(1.0)
    await rig.keeper._forget_complete(31.0)
    raw, signature = rig.worker.voucher(b"", final=True)
    await rig.keeper.on_voucher(
        WORKER, messages.Voucher(voucher=raw, worker_signature=signature, leaves=b"")
    )
    (answer,) = rig.take(messages.Countersign)
    assert answer.backbone_signature
    await rig.keeper._forget_complete(32.0)
    assert len(rig.spool) == 4  # its filing is not acknowledged
    filed = messages.Filed(voucher_hash=answer.voucher_hash, status=0, reason="")
    await rig.keeper.on_filed(filed)
    await rig.keeper._forget_complete(33.0)
    assert len(rig.spool) == 2  # prices and grant
    totals = rig.settlement.totals()
    assert (totals.accepted, totals.receipted, totals.unsigned_at_kill) == (2, 2, 0)


@trio_test
async def test_a_replaced_tab_without_a_final_voucher_is_forgotten_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()
    await rig.keeper.harvest()
    await rig.voucher()
    (answer,) = rig.take(messages.Countersign)
    filed = messages.Filed(voucher_hash=answer.voucher_hash, status=1, reason="")
    await rig.keeper.on_filed(filed)
    rig.settlement.greeted(WORKER, b"new tab!")
    for now in (1.0, 60.9):
        await rig.keeper._forget_complete(now)
        assert rig.settlement.tabs[TAB].books
    await rig.keeper._forget_complete(61.0)
    assert not rig.settlement.tabs[TAB].books
    assert rig.settlement.totals().receipted == 2


@trio_test(autojump=True)
async def test_a_full_spool_ends_serving_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    full = rig.spool._max_bytes
    rig.spool._max_bytes = rig.spool.n_bytes
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.keeper.run)
        rig.serve()
        await trio.sleep(3)
        assert rig.take(messages.Accept) == []
        assert rig.settlement.room(WORKER) == 62  # they stay at risk
        rig.spool._max_bytes = full
        await trio.sleep(3)
        assert [a.ranges for a in rig.take(messages.Accept)] == [((0, 1),)]
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_grant_that_cannot_be_kept_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.keeper.on_prices(*MONEY.signed_prices(PRICES))
    rig.settlement.greeted(WORKER, TAB)
    rig.keeper.request_grants()
    (asked,) = rig.take(messages.GrantRequest)
    full, rig.spool._max_bytes = rig.spool._max_bytes, 0
    raw, signature = MONEY.signed_grant(GRANT)
    grant = messages.Grant(
        request=asked.request, grant=raw, signature=signature, error=""
    )
    with pytest.raises(SpoolFull):
        await rig.keeper.on_grant(grant)
    assert rig.settlement.room(WORKER) == 0
    rig.spool._max_bytes = full
    rig.keeper.request_grants()
    assert len(rig.take(messages.GrantRequest)) == 1


@trio_test
async def test_prices_that_cannot_be_kept_are_taken_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    full, rig.spool._max_bytes = rig.spool._max_bytes, 0
    with pytest.raises(SpoolFull):
        await rig.keeper.on_prices(*MONEY.signed_prices(PRICES))
    assert rig.settlement.prices is None
    rig.spool._max_bytes = full
    await rig.keeper.on_prices(*MONEY.signed_prices(PRICES))
    assert rig.settlement.prices == PRICES


@trio_test
async def test_prices_and_grants_of_others_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    table, signature = MONEY.signed_prices(PRICES)
    with pytest.raises(RemoteError):
        await rig.keeper.on_prices(table, bytes(64))
    await rig.keeper.on_prices(table, signature)
    rig.settlement.greeted(WORKER, TAB)
    rig.keeper.request_grants()
    (asked,) = rig.take(messages.GrantRequest)
    raw, signature = MONEY.signed_grant(GRANT)
    other, others_signature = MONEY.signed_grant(
        MONEY.grant(PRICES, worker=MONEY.market.peer_id)
    )
    for grant in (
        messages.Grant(
            request=asked.request + 9, grant=raw, signature=signature, error=""
        ),
        messages.Grant(
            request=asked.request, grant=other, signature=others_signature, error=""
        ),
    ):
        await rig.keeper.on_grant(grant)
    assert rig.settlement.room(WORKER) == 0
    assert rig.take(messages.Grant) == []
    rig.keeper.request_grants()
    assert len(rig.take(messages.GrantRequest)) == 1


@trio_test
async def test_a_worker_that_cannot_be_told_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = Rig(tmp_path)
    await rig.open()
    rig.serve()

    def full(_peer: PeerId, _message: messages.Message) -> None:
        raise SendQueueFull("no room")

    sent = rig.keeper._parts.send
    rig.keeper._parts = dataclasses.replace(rig.keeper._parts, send=full)
    await rig.keeper.harvest()
    rig.keeper._parts = dataclasses.replace(rig.keeper._parts, send=sent)
    rig.now = 2.1
    rig.keeper.repeat()
    assert len(rig.take(messages.Accept)) == 1
