"""What a worker lost in a kill: sealed, filed, offered, signed or given up."""

from dataclasses import replace
from pathlib import Path

import pytest

from ledger.claims import Claim, verify_claim
from ledger.voucher import SignedVoucher, Voucher, sign_voucher, voucher_hash
from mobile_worker import messages
from p2pmoe.backbone import finals as module
from p2pmoe.errors import VoucherRefused
from tests.support.inline_threads import inline_threads
from tests.support.lost_tabs import LEDGER, WORKER, LostTabRig
from tests.support.money import TAB
from tests.support.trio_test import trio_test
from tests.support.vouchers import GRANT, MONEY, PRICES, TabWorker

NEW_TAB = b"new-tab-"


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


async def lose_the_tab(rig: LostTabRig) -> messages.File:
    """The worker was killed and is back: its old book is sealed in the end."""
    await rig.served()
    rig.settlement.lost(WORKER)
    rig.settlement.greeted(WORKER, NEW_TAB)
    await rig.later(0)
    rig.sent = []
    await rig.later(module.SEAL_AFTER_S - 1)
    assert rig.of(messages.File) == []  # its own last proposal may still come
    await rig.later(1)
    files = rig.of(messages.File)
    assert len(files) == 2
    assert files[0].voucher == files[1].voucher  # one offered, one filed
    return files[0]


@trio_test
async def test_a_lost_tab_is_sealed_filed_and_offered(tmp_path: Path) -> None:
    rig = LostTabRig(tmp_path)
    offer = await lose_the_tab(rig)
    final = Voucher.parse(offer.voucher)
    assert (final.final, final.number, final.leaves) == (True, 2, 2)
    (asked,) = rig.asked  # a grant of its own: the others' room is spoken for
    assert asked.ceiling_uc == final.amount_uc
    assert final.grant_hash != GRANT.content_hash
    signed = SignedVoucher(
        raw=offer.voucher,
        worker_signature=offer.worker_signature,
        backbone_signature=offer.backbone_signature,
    )
    assert isinstance(verify_claim(signed, offer.leaves, WORKER), Claim)
    await rig.later(1)
    assert rig.of(messages.File, WORKER) == []
    rig.keeper.greeted(WORKER)
    assert [m.voucher for m in rig.of(messages.File)] == [offer.voucher]
    await rig.later(module.OFFER_AGAIN_S)
    assert [m.voucher for m in rig.of(messages.File, WORKER)] == [offer.voucher]


@trio_test
async def test_the_workers_signature_completes_the_book(tmp_path: Path) -> None:
    rig = LostTabRig(tmp_path)
    offer = await lose_the_tab(rig)
    held = messages.Filed(
        voucher_hash=voucher_hash(offer.voucher), status=0, reason="held"
    )
    await rig.keeper.on_filed(held)
    assert rig.keeper.filings.n_servings == 0  # nobody is paid yet
    assert len(rig.spool) == 4  # prices, grant, leaves, final
    shown = messages.Voucher(
        voucher=offer.voucher,
        worker_signature=sign_voucher(offer.voucher, MONEY.worker.sign),
        leaves=b"",
    )
    await rig.keeper.on_voucher(WORKER, shown)
    sent = rig.sent
    (answer,) = [m for _, m in sent if isinstance(m, messages.Countersign)]
    assert answer.backbone_signature == offer.backbone_signature
    (file,) = [m for _, m in sent if isinstance(m, messages.File)]
    assert (file.voucher, file.worker_signature) == (
        offer.voucher,
        shown.worker_signature,
    )
    await rig.keeper.on_filed(held)
    assert rig.keeper.filings.n_servings == 2
    await rig.keeper._forget_complete(0)
    assert len(rig.spool) == 2  # prices and grant
    assert rig.settlement.totals().receipted == 2


@trio_test
async def test_a_sealed_book_signs_nothing_else(tmp_path: Path) -> None:
    rig = LostTabRig(tmp_path)
    await lose_the_tab(rig)
    leaves = rig.book().sealed.leaves
    raw, signature = TabWorker().voucher(leaves)
    late = messages.Voucher(voucher=raw, worker_signature=signature, leaves=leaves)
    await rig.keeper.on_voucher(WORKER, late)
    (answer,) = rig.of(messages.Countersign)
    assert answer.backbone_signature == b""
    assert "closed by our final 2" in answer.error


@trio_test
async def test_a_restart_files_and_offers_it_again(tmp_path: Path) -> None:
    rig = LostTabRig(tmp_path)
    offer = await lose_the_tab(rig)
    rig.spool.close()
    again = LostTabRig(tmp_path, rig.now)
    await again.keeper.restore()
    assert again.book().sealed.raw == offer.voucher
    again.keeper.ledger_is_back()
    assert [m.voucher for m in again.of(messages.File, LEDGER)] == [offer.voucher]
    again.keeper.greeted(WORKER)
    assert [m.voucher for m in again.of(messages.File, WORKER)] == [offer.voucher]


@trio_test
async def test_its_last_proposal_goes_before(tmp_path: Path) -> None:
    """A worker that kept its proposal has it signed; then nothing is lost."""
    rig = LostTabRig(tmp_path)
    await rig.served()
    rig.settlement.greeted(WORKER, NEW_TAB)
    await rig.later(0)
    leaves = b"".join(rig.book()._leaves[n] for n in (0, 1))
    raw, signature = TabWorker().voucher(leaves)
    late = messages.Voucher(voucher=raw, worker_signature=signature, leaves=leaves)
    await rig.keeper.on_voucher(WORKER, late)
    await rig.later(module.SEAL_AFTER_S)
    assert rig.book().sealed is None


@trio_test
async def test_an_absent_worker_is_waited_for_longer(tmp_path: Path) -> None:
    rig = LostTabRig(tmp_path)
    await rig.served()
    rig.settlement.lost(WORKER)
    await rig.later(0)
    await rig.later(module.ABSENT_S - 1)
    assert rig.book().sealed is None
    rig.settlement.greeted(WORKER, TAB)  # it was the line only
    await rig.later(1)
    assert rig.book().sealed is None
    rig.settlement.lost(WORKER)
    await rig.later(0)
    await rig.later(module.ABSENT_S)
    assert rig.book().sealed is not None
    assert rig.settlement.tab_of(WORKER) == b""  # the tab is not gone on with


@trio_test
async def test_nothing_is_sealed_for_a_cheat(
    tmp_path: Path,
) -> None:
    rig = LostTabRig(tmp_path / "cheat")
    await rig.served()
    rig.settlement.withhold(WORKER)
    rig.settlement.greeted(WORKER, NEW_TAB)
    await rig.later(0)
    await rig.later(module.SEAL_AFTER_S)
    assert rig.book().sealed is None
    assert rig.asked == []


@trio_test
async def test_a_final_waits_for_its_grant_and_asks_again(tmp_path: Path) -> None:
    rig = LostTabRig(tmp_path)
    await rig.served()
    rig.settlement.greeted(WORKER, NEW_TAB)
    await rig.later(0)
    for seconds in (module.SEAL_AFTER_S, 1, module.ASK_AGAIN_S - 1):
        await rig.later(seconds, granting=False)
        assert rig.book().sealed is None
    assert [request.ceiling_uc for request in rig.asked] == [rig.book().unsigned_uc] * 2
    refused = messages.Grant(
        request=rig.asked[-1].request, grant=b"", signature=b"", error="no credit"
    )
    await rig.keeper.on_grant(refused)
    await rig.later(module.ASK_AGAIN_S)
    assert rig.book().sealed is not None


@trio_test
async def test_at_prices_of_an_earlier_epoch_it_names_a_grant_that_was_left(
    tmp_path: Path,
) -> None:
    for name, seconds, is_sealed in (
        ("soon", module.SEAL_AFTER_S, True),
        ("late", 3 * 86_400, False),  # the ledger released its grant
    ):
        rig = LostTabRig(tmp_path / name)
        await rig.served()
        rig.settlement.priced(replace(PRICES, epoch=PRICES.epoch + 1))
        rig.settlement.greeted(WORKER, NEW_TAB)
        await rig.later(0)
        await rig.later(seconds)
        assert rig.asked == []
        final = rig.book().sealed
        assert (final is not None) == is_sealed
        assert final is None or final.voucher.grant_hash == GRANT.content_hash


@trio_test
async def test_what_nobody_signed_is_forgotten_in_the_end(tmp_path: Path) -> None:
    rig = LostTabRig(tmp_path)
    await lose_the_tab(rig)
    await rig.later(95 * 3600)
    assert rig.settlement.tabs[TAB].books
    await rig.later(2 * 3600)
    assert not rig.settlement.tabs[TAB].books
    assert len(rig.spool) == 2  # prices and grant
    assert rig.settlement.totals().unsigned_at_kill == 2


@trio_test
async def test_leaves_that_cannot_be_summed_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:

    rig = LostTabRig(tmp_path)
    await rig.served()
    rig.settlement.greeted(WORKER, NEW_TAB)
    await rig.later(0)

    def refuse(*_: object) -> None:
        raise VoucherRefused("too far back", peer=WORKER)

    monkeypatch.setattr(type(rig.book()), "draft_final", refuse)
    for _ in range(2):
        await rig.later(module.SEAL_AFTER_S)
    assert caplog.text.count("too far back") == 1
