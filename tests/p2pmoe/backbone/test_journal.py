"""After a restart the books are what they were, whatever was filed meanwhile."""

from pathlib import Path

from ledger.spool import Spool
from ledger.voucher import sign_voucher
from p2pmoe.backbone.books import Book, build_leaves
from p2pmoe.backbone.journal import GRANT as KIND_GRANT
from p2pmoe.backbone.journal import Filing, Journal
from tests.support.vouchers import (
    GRANT,
    GRANTS,
    MONEY,
    PRICES,
    TERMS,
    TabWorker,
    served,
)

ME = MONEY.backbone.peer_id
_, SIGNATURE = MONEY.signed_grant(GRANT)


def blocks(n: int) -> list[bytes]:
    return [
        build_leaves(served(2 * at, (3, (0, 2)), (5, (1,))), PRICES) for at in range(n)
    ]


class Run:
    """One life of the process over the same folder."""

    def __init__(self, folder: Path) -> None:
        self.spool = Spool(folder)
        self.journal = Journal(self.spool, ME)
        self.restored = self.journal.read()
        self.book = self.restored.books[0] if self.restored.books else None

    def begin(self) -> Book:
        self.journal.write_prices(PRICES)
        self.journal.write_prices(PRICES)
        self.journal.write_grant(TERMS.worker, GRANT, SIGNATURE)
        self.book = Book(TERMS, PRICES)
        return self.book

    def accept(self, block: bytes) -> None:
        assert self.book is not None
        self.journal.write_leaves([(TERMS, block)])
        self.book.accept(block)

    def sign(self, worker: TabWorker, block: bytes) -> Filing:
        assert self.book is not None
        examined = self.book.examine(*worker.voucher(block), GRANTS)
        signature = sign_voucher(examined.raw, MONEY.backbone.sign)
        filing = self.journal.write_signed(examined, signature)
        self.book.commit(examined, signature)
        return filing

    def die(self) -> None:
        self.spool.close()


def test_leaves_vouchers_and_grants_come_back(tmp_path: Path) -> None:
    first, second, third = blocks(3)
    worker = TabWorker()
    run = Run(tmp_path)
    assert run.restored.books == []
    run.begin()
    run.accept(first)
    run.accept(second)
    filing = run.sign(worker, first)
    run.die()

    run = Run(tmp_path)
    book = run.book
    assert book is not None
    assert book.terms == TERMS
    assert (book.n_accepted, book.n_receipted, book.unsigned) == (4, 2, ((2, 3),))
    assert [f.name for f in run.restored.filings] == [filing.name]
    (kept,) = run.restored.grants
    assert (kept.worker, kept.grant) == (TERMS.worker, GRANT)
    assert kept.signature == SIGNATURE
    again = run.sign(worker, second)
    run.journal.filed([run.restored.filings[0]])
    run.journal.filed([again])
    run.accept(third)
    run.die()

    run = Run(tmp_path)
    assert run.book is not None
    assert (run.book.n_accepted, run.book.n_receipted) == (6, 4)
    assert [f.name for f in run.restored.filings] == [again.name]  # filed once more
    run.sign(worker, third)
    assert run.book.unsigned == ()
    run.die()


def test_a_grant_kept_without_its_signature_is_read(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.spool.append(KIND_GRANT, TERMS.worker + GRANT.pack())
    run.die()
    run = Run(tmp_path)
    (kept,) = run.restored.grants
    assert (kept.grant, kept.signature) == (GRANT, b"")
    run.die()


def test_a_complete_book_leaves_nothing_behind(tmp_path: Path) -> None:
    (block,) = blocks(1)
    run = Run(tmp_path)
    run.begin()
    run.accept(block)
    run.journal.filed([run.sign(TabWorker(), block)])
    run.journal.forget(TERMS.tab, PRICES.epoch)
    run.die()
    run = Run(tmp_path)
    assert run.restored.books == []
    assert run.restored.filings == []
    run.die()


def test_another_backbones_id_is_in_its_books(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin()
    run.accept(blocks(1)[0])
    run.die()
    with Spool(tmp_path) as spool:
        (book,) = Journal(spool, bytes(32)).read().books
        assert book.terms.backbone == bytes(32)


def test_the_spool_holds_one_filed_voucher_a_book_however_many_there_were(
    tmp_path: Path,
) -> None:
    worker = TabWorker()
    run = Run(tmp_path)
    run.begin()
    for n, block in enumerate(blocks(20), start=1):
        run.accept(block)
        run.journal.filed([run.sign(worker, block)])  # before the next one comes
        assert len(run.spool) == 2 + n + 1
    run.journal.forget(TERMS.tab, PRICES.epoch)
    assert len(run.spool) == 2  # prices and grant
    run.die()


def test_a_voucher_that_is_filed_late_goes_when_its_answer_comes(
    tmp_path: Path,
) -> None:
    first, second = blocks(2)
    worker = TabWorker()
    run = Run(tmp_path)
    run.begin()
    run.accept(first)
    run.accept(second)
    older, newer = run.sign(worker, first), run.sign(worker, second)
    assert len(run.spool) == 2 + 2 + 2
    run.journal.filed([newer])
    run.journal.filed([older])
    assert len(run.spool) == 2 + 2 + 1
    run.die()
    run = Run(tmp_path)
    assert [filing.name for filing in run.restored.filings] == [newer.name]
    run.die()


def test_books_of_two_epochs_and_tabs_are_apart(tmp_path: Path) -> None:
    (block,) = blocks(1)
    prices = MONEY.prices(epoch=2)
    later = build_leaves(served(2, (3, (0, 2)), (5, (1,))), prices)
    terms = MONEY.terms(tab=b"another!")
    with Spool(tmp_path) as spool:
        journal = Journal(spool, ME)
        journal.write_prices(PRICES)
        journal.write_prices(prices)
        journal.write_leaves([(TERMS, block), (TERMS, later)])
        journal.write_leaves([(terms, block.replace(TERMS.tab, terms.tab))])
    with Spool(tmp_path) as spool:
        books = Journal(spool, ME).read().books
    found = [(book.terms.tab, book.prices.epoch, book.accepted) for book in books]
    assert found == [
        (TERMS.tab, 1, ((0, 1),)),
        (TERMS.tab, 2, ((2, 3),)),
        (terms.tab, 1, ((0, 1),)),
    ]


def test_leaves_are_durable_when_they_are_written(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin()
    run.accept(blocks(1)[0])
    copy = tmp_path / "copy"  # as a kill would leave it: nothing was closed
    copy.mkdir()
    for file in tmp_path.glob("*.spool"):
        (copy / file.name).write_bytes(file.read_bytes())
    run.die()
    with Spool(copy) as spool:
        (book,) = Journal(spool, ME).read().books
        assert book.unsigned == ((0, 1),)


def test_prices_and_grants_of_epochs_that_are_over_leave_the_spool(tmp_path):
    run = Run(tmp_path)
    run.begin()
    later = MONEY.prices(epoch=2)
    run.journal.write_prices(later)
    run.journal.write_grant(TERMS.worker, MONEY.grant(later), SIGNATURE)
    assert len(run.spool) == 4
    run.journal.prune({PRICES.content_hash, later.content_hash})
    assert len(run.spool) == 4
    run.die()
    again = Run(tmp_path)
    again.journal.prune({later.content_hash})
    assert len(again.spool) == 2
    again.journal.write_prices(later)
    assert len(again.spool) == 2
    again.journal.write_prices(PRICES)
    assert len(again.spool) == 3
