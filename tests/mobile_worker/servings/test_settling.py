"""Vouchers between spool, backbone and ledger, restarts included."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from ledger.claims import FiledStatus
from ledger.errors import SpoolFull, StoreUnavailable
from ledger.spool import Spool
from ledger.tally import TabTerms, Tally
from ledger.voucher import Voucher, sign_voucher, verify_voucher, voucher_hash
from mobile_worker.messages import accounts as wire
from mobile_worker.messages.serving import Accept
from mobile_worker.servings.accounts import Accounts
from mobile_worker.servings.grants import GrantReader
from mobile_worker.servings.own_copy import OwnCopy, read_receipts
from mobile_worker.servings.settling import Earnings, Settling
from mobile_worker.servings.tab import CallHashes, Tab
from tests.support.inline_threads import inline_threads
from tests.support.money import MANIFEST, NOW_US, Money, dispatch_of
from tests.support.trio_test import trio_test


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


class TrioClock:
    """The test's clock."""

    def monotonic(self) -> float:
        return trio.current_time()

    def wall_us(self) -> int:
        return NOW_US + int(trio.current_time() * 1e6)


@dataclass
class Run:
    """One run of the worker: its accounts over a spool folder, and what it sent."""

    folder: Path
    money: Money
    sent: list = field(default_factory=list)

    def __post_init__(self) -> None:
        money = self.money
        reader = GrantReader(
            network=money.network,
            worker=money.worker.peer_id,
            ledger=money.ledger.peer_id,
            market=money.market.peer_id,
        )
        self.accounts = Accounts(reader, money.worker.sign)
        self.spool = Spool(self.folder)
        self.settling = Settling(
            self.accounts,
            self.spool,
            send=lambda peer, message: self.sent.append((peer, message)),
            ledger=money.ledger.peer_id,
            clock=TrioClock(),
            copy=OwnCopy(self.folder / "receipts"),
        )
        self.accounts.expect(money.backbone.peer_id, MANIFEST)
        self.accounts.priced(*money.signed_prices(money.prices()))
        raw, signature = money.signed_grant(
            money.grant(money.prices(), expiry_us=2**60, serial=len(self.sent))
        )
        self.accounts.granted(
            money.backbone.peer_id,
            wire.Grant(request=1, grant=raw, signature=signature, error=""),
        )

    def serve(self, first: int, n: int = 1) -> Tab:
        backbone = self.money.backbone.peer_id
        tab = self.accounts.greeted(backbone, MANIFEST, 1, getattr(self, "tab", b""))
        self.tab = tab.terms.tab
        taken = tab.admit(dispatch_of(first, range(n), tab=tab.terms.tab), NOW_US)
        hashes = [CallHashes(b"x" * 16, b"o" * 16)] * n
        tab.computed(taken, hashes, trio.current_time())
        accept = Accept(tab=tab.terms.tab, ranges=((first, first + n - 1),))
        self.accounts.accepted(backbone, accept, trio.current_time())
        return tab

    def take(self, kind: type) -> list:
        found = [m for _, m in self.sent if isinstance(m, kind)]
        self.sent = [(p, m) for p, m in self.sent if not isinstance(m, kind)]
        return found

    def countersign(self, voucher: wire.Voucher) -> None:
        answer = wire.Countersign(
            voucher_hash=voucher_hash(voucher.voucher),
            backbone_signature=sign_voucher(voucher.voucher, self.money.backbone.sign),
            error="",
        )
        self.settling.countersigned(self.money.backbone.peer_id, answer)

    async def filed(self, file: wire.File, status: int, reason: str = "") -> None:
        answer = wire.Filed(
            voucher_hash=voucher_hash(file.voucher), status=status, reason=reason
        )
        await self.settling.filed(self.money.ledger.peer_id, answer)


@trio_test(autojump=True)
async def test_from_accept_to_filed(tmp_path: Path) -> None:
    run = Run(tmp_path, Money())
    run.serve(0, 3)
    await trio.sleep(2)
    await run.settling.step()
    (voucher,) = run.take(wire.Voucher)
    assert len(run.spool) == 4
    assert not run.settling.is_settled
    run.countersign(voucher)
    await run.settling.step()
    (file,) = run.take(wire.File)
    assert file.voucher == voucher.voucher
    assert file.leaves == voucher.leaves
    await run.filed(file, FiledStatus.STORED)
    assert len(run.spool) == 3  # the tab, its number, and what the grant was used for
    assert run.settling.is_settled
    assert run.settling.earnings.filed == 1
    (own,) = read_receipts(tmp_path / "receipts")
    assert own.signed.verified().leaves == 3
    assert own.status is FiledStatus.STORED


@trio_test(autojump=True)
async def test_what_is_refused_is_in_the_own_copy_with_its_reason(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, Money())
    run.serve(0, 3)
    await trio.sleep(2)
    await run.settling.step()
    run.countersign(*run.take(wire.Voucher))
    await run.settling.step()
    (file,) = run.take(wire.File)
    await run.filed(file, FiledStatus.RETRY, "busy")
    assert list(read_receipts(tmp_path / "receipts")) == []
    await run.filed(file, FiledStatus.REJECTED, "ceiling")
    (own,) = read_receipts(tmp_path / "receipts")
    assert (own.status, own.reason) == (FiledStatus.REJECTED, "ceiling")
    assert own.signed.raw == file.voucher


@trio_test(autojump=True)
async def test_what_cannot_be_copied_stays_in_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, Money())
    run.serve(0, 3)
    await trio.sleep(2)
    await run.settling.step()
    run.countersign(*run.take(wire.Voucher))
    await run.settling.step()
    (file,) = run.take(wire.File)
    n_kept = len(run.spool)

    def full(*_: object) -> None:
        raise StoreUnavailable("receipts: no space left on device")

    monkeypatch.setattr(OwnCopy, "add", full)
    with pytest.raises(StoreUnavailable):
        await run.filed(file, FiledStatus.STORED)
    assert len(run.spool) == n_kept


@trio_test(autojump=True)
async def test_a_restart_files_what_both_signed(tmp_path: Path) -> None:
    money = Money()
    first = Run(tmp_path, money)
    first.serve(0)
    await trio.sleep(2)
    await first.settling.step()
    (voucher,) = first.take(wire.Voucher)
    first.countersign(voucher)
    await first.settling.step()
    first.spool.close()

    second = Run(tmp_path, money)
    await second.settling.step()
    (file,) = second.take(wire.File)
    assert file.voucher == voucher.voucher
    assert file.leaves == voucher.leaves
    await second.filed(file, FiledStatus.DUPLICATE)
    assert second.settling.is_settled
    second.spool.close()
    assert len(Spool(tmp_path)) == 3


@trio_test(autojump=True)
async def test_a_restart_offers_what_only_we_signed(tmp_path: Path) -> None:
    money = Money()
    first = Run(tmp_path, money)
    first.serve(0)
    await trio.sleep(2)
    await first.settling.step()
    (voucher,) = first.take(wire.Voucher)
    first.spool.close()

    second = Run(tmp_path, money)
    await second.settling.step()
    assert second.sent == []
    second.settling.greeted(money.market.peer_id)
    assert second.sent == []
    second.settling.greeted(money.backbone.peer_id)
    (again,) = second.take(wire.Voucher)
    assert again == voucher
    forged = wire.Countersign(
        voucher_hash=voucher_hash(voucher.voucher),
        backbone_signature=bytes(64),
        error="",
    )
    second.settling.countersigned(money.backbone.peer_id, forged)
    await second.settling.step()
    assert second.take(wire.File) == []
    second.countersign(again)
    await second.settling.step()
    (file,) = second.take(wire.File)
    await second.filed(file, FiledStatus.STORED)
    second.spool.close()
    assert len(Spool(tmp_path)) == 3


@trio_test(autojump=True)
async def test_an_old_unsigned_voucher_is_forgotten(tmp_path: Path) -> None:
    money = Money()
    first = Run(tmp_path, money)
    first.serve(0)
    await trio.sleep(2)
    await first.settling.step()
    first.spool.close()
    await trio.sleep(91 * 86_400)
    again = Run(tmp_path, money)
    again.settling.greeted(money.backbone.peer_id)
    assert again.sent == []
    assert len(again.spool) == 1


@trio_test(autojump=True)
async def test_the_ledger_down_for_an_hour_costs_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, Money())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.settling.run)
        for serving in range(5):
            run.serve(serving)
            run.settling.wake()
            await trio.sleep(2)
            for voucher in run.take(wire.Voucher):
                run.countersign(voucher)
            await trio.sleep(1)
        await trio.sleep(3600)
        n_sent = len(run.take(wire.File))
        assert 20 < n_sent < 100
        assert not run.settling.is_settled
        run.settling.hurry()
        await trio.sleep(1)
        (file,) = run.take(wire.File)
        await run.filed(file, FiledStatus.STORED)
        await trio.sleep(1)
        (rest,) = run.take(wire.File)
        await run.filed(rest, FiledStatus.REJECTED, "grant is closed")
        assert run.settling.is_settled
        assert (run.settling.earnings.filed, run.settling.earnings.rejected) == (1, 1)
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_only_the_ledger_acknowledges(tmp_path: Path) -> None:
    run = Run(tmp_path, Money())
    run.serve(0)
    await trio.sleep(2)
    await run.settling.step()
    run.countersign(run.take(wire.Voucher)[0])
    await run.settling.step()
    (file,) = run.take(wire.File)
    answer = wire.Filed(voucher_hash=voucher_hash(file.voucher), status=0, reason="")
    await run.settling.filed(run.money.backbone.peer_id, answer)
    assert not run.settling.is_settled


@trio_test(autojump=True)
async def test_a_full_spool_sends_no_voucher_and_loses_none(tmp_path: Path) -> None:
    run = Run(tmp_path, Money())
    run.serve(0)
    await trio.sleep(2)
    append, full = run.spool.append, True

    def bounded(kind: int, payload: bytes) -> int:
        if full:
            raise SpoolFull("spool is full")
        return append(kind, payload)

    run.spool.append = bounded
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.settling.run)
        await trio.sleep(5)
        assert run.take(wire.Voucher) == []
        full = False
        await trio.sleep(5)
        run.countersign(run.take(wire.Voucher)[0])
        await trio.sleep(1)
        assert len(run.take(wire.File)) == 1
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_a_grant_handed_over_again_has_only_the_rest_left(tmp_path: Path) -> None:
    money = Money()
    first = Run(tmp_path, money)
    first.serve(0, 3)  # experts 0 to 2, 10 micro-credits each
    await trio.sleep(2)
    await first.settling.step()
    first.countersign(first.take(wire.Voucher)[0])
    first.serve(10)
    await first.settling.step()
    await trio.sleep(2)
    await first.settling.step()
    first.spool.close()

    second = Run(tmp_path, money)
    tab = second.accounts.greeted(money.backbone.peer_id, MANIFEST, 1, b"")
    (allowance,) = tab._allowances
    assert (allowance.used_uc, allowance.claimed_uc) == (40, 40)


@trio_test(autojump=True)
async def test_a_rejected_voucher_goes_along_with_the_next(tmp_path: Path) -> None:
    run = Run(tmp_path, Money())
    run.serve(0)
    await trio.sleep(2)
    await run.settling.step()
    run.countersign(run.take(wire.Voucher)[0])
    await run.settling.step()
    (file,) = run.take(wire.File)
    await run.filed(file, FiledStatus.REJECTED, "ceiling")
    assert run.settling.is_settled
    await trio.sleep(100)
    await run.settling.step()
    assert run.take(wire.File) == []
    run.serve(1)
    await trio.sleep(2)
    await run.settling.step()
    run.countersign(run.take(wire.Voucher)[0])
    await run.settling.step()
    (both,) = run.take(wire.File)
    assert len(both.leaves) == 2 * len(file.leaves)
    await run.filed(both, FiledStatus.STORED)
    assert len(run.spool) == 3


def final_of(run: Run, voucher: wire.Voucher, number: int, **changes) -> wire.File:
    """The backbone's final for a tab of which it knows one more serving."""
    last = Voucher.parse(voucher.voucher)
    block = voucher.leaves
    tally = Tally(TabTerms.of(last), run.money.prices())
    tally.add(block)
    drafted = tally.draft(
        None, grant_hash=last.grant_hash, issued_us=NOW_US, final=True
    )
    final = dataclasses.replace(drafted, number=number, previous=b"p" * 32, **changes)
    return wire.File(
        voucher=final.pack(),
        worker_signature=b"",
        backbone_signature=sign_voucher(final.pack(), run.money.backbone.sign),
        leaves=block,
    )


async def killed_after_a_proposal(
    tmp_path: Path, money: Money
) -> tuple[Run, wire.Voucher]:
    first = Run(tmp_path, money)
    first.serve(0)
    await trio.sleep(2)
    await first.settling.step()
    (voucher,) = first.take(wire.Voucher)
    first.spool.close()
    return Run(tmp_path, money), voucher


@trio_test(autojump=True)
async def test_a_final_of_the_backbone_is_signed_kept_filed_and_shown(
    tmp_path: Path,
) -> None:
    money = Money()
    second, voucher = await killed_after_a_proposal(tmp_path, money)
    offer = final_of(second, voucher, 2)
    backbone = money.backbone.peer_id
    await second.settling.offered(backbone, offer)
    (shown,) = second.take(wire.Voucher)
    assert (shown.voucher, shown.leaves) == (offer.voucher, b"")
    verify_voucher(shown.voucher, shown.worker_signature, money.worker.peer_id)
    second.settling.greeted(backbone)
    assert second.sent == []  # its own proposal is covered: no use to offer it
    second.spool.close()  # killed again: it is kept
    third = Run(tmp_path, money)
    await third.settling.step()
    (file,) = third.take(wire.File)
    assert (file.voucher, file.leaves) == (offer.voucher, offer.leaves)
    assert file.worker_signature == shown.worker_signature
    # Offered again, it is shown again, and not filed twice.
    await third.settling.offered(backbone, offer)
    assert third.take(wire.Voucher) == [shown]
    await third.filed(file, FiledStatus.STORED)
    assert third.settling.n_waiting == 0


@trio_test(autojump=True)
async def test_no_final_of_a_signed_number_or_of_strangers_is_signed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    money = Money()
    second, voucher = await killed_after_a_proposal(tmp_path, money)
    backbone = money.backbone.peer_id
    good = final_of(second, voucher, 2)
    await second.settling.offered(money.ledger.peer_id, good)
    await second.settling.offered(backbone, final_of(second, voucher, 2, tab=b"t" * 8))
    await second.settling.offered(
        backbone, dataclasses.replace(good, voucher=b"nonsense")
    )
    assert second.sent == []
    await second.settling.offered(backbone, good)
    second.take(wire.Voucher)
    await second.settling.offered(backbone, final_of(second, voucher, 2, issued_us=1))
    assert second.sent == []
    assert "2 is signed" in caplog.text


@trio_test(autojump=True)
async def test_a_final_ends_a_tab_that_is_open_here(tmp_path: Path) -> None:
    run = Run(tmp_path, Money())
    tab = run.serve(0)
    await trio.sleep(2)
    await run.settling.step()
    (voucher,) = run.take(wire.Voucher)
    run.serve(1)
    await run.settling.offered(run.money.backbone.peer_id, final_of(run, voucher, 2))
    assert tab.is_closed
    assert run.accounts.is_settled
    assert tab.signed_up_to(1) == 0  # its own proposal is given up
    assert len(run.take(wire.Voucher)) == 1


@trio_test(autojump=True)
async def test_a_proposal_that_is_on_its_way_to_the_spool_counts(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, Money())
    tab = run.serve(0)
    await trio.sleep(2)
    await run.settling.step()
    (voucher,) = run.take(wire.Voucher)
    run.countersign(voucher)
    await run.settling.step()
    run.serve(1)
    await trio.sleep(2)
    run.accounts.due(trio.current_time(), NOW_US)  # signs number 2, in memory only
    assert tab.signed_up_to(1) == 2
    await run.settling.offered(run.money.backbone.peer_id, final_of(run, voucher, 2))
    assert run.take(wire.Voucher) == []


@trio_test(autojump=True)
async def test_a_tab_that_was_lost_in_its_first_second_is_paid_too(
    tmp_path: Path,
) -> None:
    money = Money()
    first = Run(tmp_path, money)
    first.serve(0)
    await first.settling.step()
    assert first.sent == []  # no voucher was due
    tab = first.tab
    first.spool.close()
    second = Run(tmp_path, money)
    helper, voucher = await killed_after_a_proposal(tmp_path / "other", money)
    helper.spool.close()
    final = final_of(second, voucher, 2, tab=tab)
    await second.settling.offered(money.backbone.peer_id, final)
    (shown,) = second.take(wire.Voucher)
    assert shown.voucher == final.voucher
    await second.settling.offered(
        money.backbone.peer_id, final_of(second, voucher, 2, tab=tab, issued_us=1)
    )
    assert second.sent == []


def test_rejections_are_counted_by_reason_and_reasons_are_bounded() -> None:
    earnings = Earnings()
    for number in range(100):
        earnings.reject(f"reason {number}")
    earnings.reject("reason 0")
    assert earnings.rejected == 101
    assert earnings.reasons["reason 0"] == 2
    assert sum(earnings.reasons.values()) == 101
    assert len(earnings.reasons) == 17
