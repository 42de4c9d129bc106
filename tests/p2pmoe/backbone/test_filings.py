"""Countersigned vouchers go to the ledger in order, together, until it answers."""

from pathlib import Path

import pytest

from ledger.claims import FiledStatus
from ledger.spool import Spool
from ledger.voucher import sign_voucher, voucher_hash
from mobile_worker.messages.accounts import File, Filed
from p2pmoe.backbone.books import Book, build_leaves
from p2pmoe.backbone.filings import Filings
from p2pmoe.backbone.journal import Filing, Journal
from tests.support.vouchers import GRANTS, MONEY, PRICES, TERMS, TabWorker, served


def signed(folder: Path, n: int) -> list[Filing]:
    """Return vouchers 1 to n of one tab, of two servings each."""
    worker, book, found = TabWorker(), Book(TERMS, PRICES), []
    with Spool(folder) as spool:
        journal = Journal(spool, MONEY.backbone.peer_id)
        for at in range(n):
            block = build_leaves(served(2 * at, (3, (0, 2)), (5, (1,))), PRICES)
            book.accept(block)
            examined = book.examine(*worker.voucher(block), GRANTS)
            signature = sign_voucher(examined.raw, MONEY.backbone.sign)
            found.append(journal.write_signed(examined, signature))
            book.commit(examined, signature)
    return found


def answer(file: File, status: FiledStatus = FiledStatus.STORED) -> Filed:
    name = voucher_hash(file.voucher)
    return Filed(voucher_hash=name, status=int(status), reason="because")


def test_a_long_outage_ends_with_one_filing_of_all_that_waited(tmp_path: Path) -> None:
    filings = Filings()
    first, *rest = signed(tmp_path, 50)
    filings.add(first)
    (lost,) = filings.due(0.0)
    for filing in rest:
        filings.add(filing)
    filings.hurry()
    (again,) = filings.due(1.0)
    assert again == lost
    assert filings.filed(answer(again), 1.0) == [first]
    (together,) = filings.due(1.0)
    assert together.voucher == rest[-1].raw
    assert together.leaves == b"".join(filing.leaves for filing in rest)
    assert filings.holds(rest[0].name)
    assert filings.filed(answer(together, FiledStatus.DUPLICATE), 1.1) == rest
    assert not filings
    assert not filings.holds(rest[0].name)
    assert filings.n_servings == 100


def test_a_busy_ledger_is_asked_again_after_a_pause(tmp_path: Path) -> None:
    filings = Filings()
    filings.add(*signed(tmp_path, 1))
    (file,) = filings.due(0.0)
    assert filings.filed(answer(file, FiledStatus.RETRY), 0.1) == []
    assert filings.due(0.2) == []
    assert filings.due(30.0) == [file]
    assert len(filings) == 1


def test_a_rejected_one_is_counted_and_kept_for_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filings = Filings()
    first, second = signed(tmp_path, 2)
    filings.add(first)
    (file,) = filings.due(0.0)
    assert filings.filed(answer(file, FiledStatus.REJECTED), 0.1) == []
    assert "because" in caplog.text
    assert (filings.n_rejected, len(filings)) == (1, 0)
    assert filings.due(100.0) == []
    filings.add(second)
    (file,) = filings.due(101.0)
    assert file.leaves == first.leaves + second.leaves
    assert filings.filed(answer(file), 101.1) == [first, second]
    assert filings.n_servings == 4
