"""Payment files: whole, private, never over another; what a fault means."""

import csv
import io
import stat

import pytest

from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import replace_file
from p2pmoe.payouts import bank as module
from p2pmoe.payouts.bank import BankFiles, pack_csv
from p2pmoe.payouts.pain001 import Debtor, message_id
from tests.support.ledger_world import NOVEMBER_US
from tests.support.payout_orders import IBAN, order

DEBTOR = Debtor(name="Net", iban=IBAN)


def files(folder, **options):
    return BankFiles(DEBTOR, folder, wall_us=lambda: NOVEMBER_US, **options)


def test_one_file_and_its_table_for_all_orders(tmp_path):
    bank = files(tmp_path)
    orders = [order(1), order(2)]
    outcomes = bank.send(orders)
    path = tmp_path / f"payout-{message_id(orders)}.xml"
    assert [(one.kind, one.detail) for one in outcomes] == [("sent", path.name)] * 2
    assert bank.written == [path, path.with_suffix(".csv")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "<CreDtTm>2026-11-01T00:00:00Z</CreDtTm>" in text
    assert "<Dt>2026-11-01</Dt>" in text


def test_the_bank_is_asked_for_a_day(tmp_path):
    bank = files(tmp_path, execute_on="2026-12-24")
    bank.send([order(3)])
    assert "<Dt>2026-12-24</Dt>" in bank.written[0].read_text()


def test_a_file_that_is_there_may_have_been_sent(tmp_path):
    files(tmp_path).send([order(1)])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    (outcome,) = files(tmp_path).send([order(1)])
    assert (outcome.kind, outcome.stop) == ("unresolved", True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_without_a_file_nothing_was_paid(tmp_path, monkeypatch):
    def refuse(path, content):
        raise FolderUnusable(f"cannot use {path}: no space left on device")

    monkeypatch.setattr(module, "replace_file", refuse)
    outcomes = files(tmp_path).send([order(1), order(2)])
    assert [(one.kind, one.stop) for one in outcomes] == [("failed", True)] * 2
    assert "no space left" in outcomes[0].detail
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["xml", "folder"])
def test_a_fault_half_way_leaves_no_file_that_a_bank_would_take(
    tmp_path, monkeypatch, step
):
    def refuse_xml(path, content):
        if path.suffix == ".xml":
            raise FolderUnusable(f"cannot use {path}: no space left on device")
        replace_file(path, content)

    def refuse_folder(folder):
        raise OSError(5, "Input/output error")

    if step == "xml":
        monkeypatch.setattr(module, "replace_file", refuse_xml)
    else:
        monkeypatch.setattr(module, "sync_folder", refuse_folder)
    bank = files(tmp_path)
    (outcome,) = bank.send([order(1)])
    assert (outcome.kind, outcome.stop) == ("failed", True)
    assert (list(tmp_path.iterdir()), bank.written) == ([], [])


def test_a_file_that_cannot_be_taken_back_may_be_paid(tmp_path, monkeypatch):
    def refuse(path, content):
        path.mkdir()  # cannot be unlinked
        raise FolderUnusable(f"cannot use {path}: no space left on device")

    monkeypatch.setattr(module, "replace_file", refuse)
    (outcome,) = files(tmp_path).send([order(1)])
    assert (outcome.kind, outcome.stop) == ("unresolved", True)
    assert "may lie there" in outcome.detail


def test_who_has_no_iban_is_not_for_the_bank(tmp_path):
    bank = files(tmp_path)
    assert bank.refusal(order(1).payee) == ""
    assert "has no IBAN" in bank.refusal(order(1, iban="").payee)


def test_a_table_holds_no_formulas():
    raw = pack_csv([order(1, name="=HYPERLINK(1)"), order(2, name='A "B", C')])
    rows = list(csv.DictReader(io.StringIO(raw.decode(), newline="")))
    assert rows[0]["name"] == "'=HYPERLINK(1)"
    assert rows[1]["name"] == 'A "B", C'
    assert (rows[0]["amount"], rows[0]["currency"]) == ("12.34", "EUR")
    assert rows[0]["end_to_end_id"] == order(1).key
