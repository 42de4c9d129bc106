"""What a worker lost in a kill is paid: backbone, ledger and worker, each for real."""

from pathlib import Path

import pytest

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.claims import FiledStatus, GrantOrder
from ledger.database import LedgerIdentity
from ledger.settlement import GrantPolicy
from ledger.spool import Spool
from ledger.statements import balances
from ledger.store import Store, StoreSettings
from ledger.voucher import SignedVoucher, Voucher, voucher_hash
from ledger.writer import WriterSettings
from mobile_worker import messages
from mobile_worker.servings.accounts import Accounts
from mobile_worker.servings.filing import SpoolKind
from mobile_worker.servings.finals import TabMark
from mobile_worker.servings.grants import GrantReader
from mobile_worker.servings.settling import Settling
from p2pmoe.backbone import finals
from relay.keys import PeerId
from tests.support.inline_threads import inline_threads
from tests.support.lost_tabs import LEDGER, WORKER, LostTabRig
from tests.support.money import TAB
from tests.support.trio_test import trio_test
from tests.support.vouchers import MONEY, PRICES

BACKBONE = PeerId(MONEY.backbone.peer_id)
IDENTITY = LedgerIdentity(
    network=MONEY.network, ledger=LEDGER, market=MONEY.market.peer_id
)


def open_store(folder: Path, rig: LostTabRig) -> Store:
    settings = StoreSettings(
        policy=GrantPolicy(opening_credit_uc=10**9),
        # Who waits on a busy machine is not told to try again.
        writer=WriterSettings(max_wait_s=600.0),
    )
    return Store(
        folder,
        IDENTITY,
        sign=MONEY.ledger.sign,
        wall_us=rig.wall_us,
        settings=settings,
    )


def file(store: Store, message: messages.File, peer: bytes) -> tuple[int, str]:
    signed = SignedVoucher(
        raw=message.voucher,
        worker_signature=message.worker_signature,
        backbone_signature=message.backbone_signature,
    )
    filed = store.file(signed, message.leaves, peer).result(60)
    return filed.status, filed.reason


def restarted_worker(folder: Path, rig: LostTabRig) -> tuple[Settling, list]:
    """A worker that signed number 1 in the tab, and lost everything else."""
    spool, sent = Spool(folder), []
    mark = TabMark(
        backbone=BACKBONE,
        tab=TAB,
        price_epoch=PRICES.epoch,
        number=1,
        issued_us=rig.wall_us(),
        name=bytes(32),
    )
    spool.append(int(SpoolKind.TAB_MARK), mark.pack())
    reader = GrantReader(
        network=MONEY.network,
        worker=WORKER,
        ledger=LEDGER,
        market=MONEY.market.peer_id,
    )
    settling = Settling(
        Accounts(reader, MONEY.worker.sign),
        spool,
        send=lambda peer, message: sent.append((peer, message)),
        ledger=LEDGER,
        clock=rig,
    )
    return settling, sent


def pending_uc(store: Store) -> int:
    with store.reader().session() as connection:
        found = balances(connection)
    return sum(b.balance_uc for b in found if b.kind == AccountKind.WORKER_PENDING)


@trio_test
async def test_a_final_of_one_side_is_held_until_the_other_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    rig = LostTabRig(tmp_path / "backbone")
    with open_store(tmp_path / "ledger", rig) as store:

        def grant(asked: messages.GrantRequest) -> tuple[bytes, bytes]:
            order = GrantOrder(
                request=asked.request,
                backbone=BACKBONE,
                worker=asked.worker,
                ceiling_uc=asked.ceiling_uc,
                price_table=asked.price_table,
                price_signature=asked.price_signature,
            )
            issued = store.grant(order).result(60)
            return issued.raw, issued.signature

        await rig.served(grant)
        rig.settlement.greeted(WORKER, b"new-tab-")
        await rig.later(0)
        await rig.later(finals.SEAL_AFTER_S)
        (offer,) = [m for p, m in rig.sent if p == WORKER and is_file(m)]
        (filing,) = [m for p, m in rig.sent if p == LEDGER and is_file(m)]
        assert file(store, filing, BACKBONE) == (FiledStatus.STORED, "held")
        assert pending_uc(store) == 0
        name = voucher_hash(filing.voucher)
        await rig.keeper.on_filed(
            messages.Filed(voucher_hash=name, status=0, reason="held")
        )

        settling, sent = restarted_worker(tmp_path / "worker", rig)
        await settling.offered(BACKBONE, offer)
        await settling.step()
        (shown,) = [m for p, m in sent if p == BACKBONE]
        (own,) = [m for p, m in sent if p == LEDGER]
        assert file(store, own, WORKER) == (FiledStatus.STORED, "")
        amount_uc = Voucher.parse(own.voucher).amount_uc
        assert pending_uc(store) == amount_uc > 0

        rig.sent = []
        await rig.keeper.on_voucher(WORKER, shown)
        (again,) = [m for p, m in rig.sent if p == LEDGER]
        assert file(store, again, BACKBONE) == (FiledStatus.DUPLICATE, "")
        store.tend()
        verify_ledger(store.reader(), IDENTITY)


def is_file(message: messages.Message) -> bool:
    return isinstance(message, messages.File)
