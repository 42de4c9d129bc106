"""The checkup: a sound ledger, and each thing that can be wrong with its books."""

import sqlite3

import pytest
from sqlalchemy import insert, update

from ledger import checkup
from ledger.beacon_words import AuditState
from ledger.checkup import check_ledger
from ledger.checkup_files import Severity
from ledger.database import Reader
from ledger.schema import account, grant
from ledger.schema_closing import dispute, one_sided, payout
from tests.support.beacons import decide, draw, new_tab
from tests.support.books import Books
from tests.support.honest_books import copy_of_honest_books
from tests.support.ledger_commands import world_with_vouchers
from tests.support.ledger_world import HOUR_US, NOVEMBER_US, World
from tests.support.standby_world import fill_pot


@pytest.fixture
def ledger(tmp_path):
    return world_with_vouchers(tmp_path), tmp_path


def look(path, now_us=NOVEMBER_US, *, is_full=False):
    return check_ledger(Reader(path), now_us, is_full=is_full)


def worse(findings) -> dict[str, str]:
    return {f.check: f.detail for f in findings if f.severity is not Severity.OK}


def test_a_sound_ledger(ledger_database):
    world_with_vouchers(ledger_database)
    assert worse(look(ledger_database, is_full=True)) == {}
    findings = look(ledger_database)
    assert worse(findings) == {}
    details = {f.check: f.detail for f in findings}
    engine = "SQLite" if (ledger_database / "ledger.sqlite3").exists() else "PostgreSQL"
    assert engine in details["database"]
    assert "1 plain, 0 packed, 0 pruned" in details["leaf files"]
    assert details["payouts"] == "0 of unknown outcome"


def test_unsafe_settings_and_an_old_reader_are_warnings(ledger_database, monkeypatch):
    world_with_vouchers(ledger_database)
    monkeypatch.setattr(checkup, "_SAFE", {"engine": "none"})
    monkeypatch.setattr(checkup, "_MAX_WAL_BYTES", -1)
    monkeypatch.setattr(checkup, "_MAX_TRANSACTION_S", -1)
    found = worse(look(ledger_database))
    assert len(found.keys() & {"database", "write-ahead log", "transactions"}) == 2


def test_books_that_do_not_balance(tmp_path):
    world = world_with_vouchers(tmp_path)
    with world.open(tmp_path) as store:
        wrong = update(account).where(account.c.id == 1).values(credits_uc=1)
        store._writer.submit(lambda desk: desk.connection.execute(wrong)).result(60)
    assert "differ" in worse(look(tmp_path))["balances"]


def test_a_damaged_page_is_found(ledger):
    _, path = ledger
    raw = bytearray((path / "ledger.sqlite3").read_bytes())
    raw[-4096] = 0xEE  # the last page's kind
    (path / "ledger.sqlite3").write_bytes(raw)
    findings = look(path)
    assert any(f.severity is Severity.FAULT for f in findings)
    assert all("\n" not in f.detail for f in findings)


def test_a_row_that_refers_to_nothing_is_found(ledger):
    _, path = ledger
    past = sqlite3.connect(path / "ledger.sqlite3")  # enforces no references
    past.execute("insert into leaf_file_state values (99, 'packed', x'', 0)")
    past.commit()
    past.close()
    found = worse(look(path))
    assert "leaf_file_state refers to nothing" in found["integrity"]


def test_grants_that_nobody_releases(ledger):
    _, path = ledger
    days = 30 * 24 * HOUR_US
    assert "1 overdue" in worse(look(path, NOVEMBER_US + days))["grants"]


def test_what_waits_too_long(ledger):
    world, path = ledger
    with Books(world, path) as books:
        books.close(1, NOVEMBER_US, held=1)
        connection = books.connection
        connection.execute(update(grant).values(state="released"))
        row = {"voucher_id": 1, "opener": b"o", "respondent": b"r", "reason": "hash"}
        row |= {"claim": b"", "claim_signature": b"", "opened_us": NOVEMBER_US}
        row |= {"answer_due_us": NOVEMBER_US, "verdict": ""}
        for n, state in enumerate(("open", "answered")):
            own = {"id": n, "serving": n, "state": state}
            connection.execute(insert(dispute).values(**row, **own))
        connection.execute(
            insert(one_sided).values(
                content_hash=b"h",
                worker=b"w",
                backbone=b"b",
                tab=b"t",
                price_epoch=1,
                number=1,
                amount_uc=1,
                raw=b"",
                backbone_signature=b"",
                leaves=b"",
                filed_by=b"",
                seen_us=NOVEMBER_US,
                state="held",
            )
        )
    found = look(path, NOVEMBER_US + 1000 * HOUR_US)
    told = worse(found)
    assert "1 overdue, the oldest" in told["releases"]
    assert "does the ledger run?" in told["releases"]
    disputes = [f.detail for f in found if f.check == "disputes"]
    assert "1 overdue, the oldest 1000 h 0 min" in disputes[0]
    assert disputes[1] == "1 answered and not judged"
    sides = [f.detail for f in found if f.check == "one-sided finals"]
    assert sides == ["1 wait for their worker, the oldest 1000 h 0 min"]


def test_payouts_of_unknown_outcome(ledger, monkeypatch):
    _, path = ledger
    monkeypatch.setattr(checkup, "_count", lambda _, condition: _names(condition))
    assert "2 of unknown outcome" in worse(look(path))["payouts"]


def _names(condition) -> int:
    return 2 * ("payout" in str(condition) and payout.name == "payout")


def test_a_clock_behind_the_books(ledger):
    _, path = ledger
    found = worse(look(path, NOVEMBER_US - 3 * HOUR_US))
    assert found == {
        "clock": "the newest transfer is 3 h 0 min ahead of this machine's clock"
    }


def test_a_check_that_cannot_be_made_does_not_end_the_others(ledger, monkeypatch):
    _, path = ledger

    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checkup, "_check_balances", fails)
    findings = look(path)
    assert "Input/output error" in worse(findings)["balances"]
    assert findings[-1].check == "log"


def test_a_pot_that_does_not_last_another_epoch_is_a_warning(tmp_path):
    copy_of_honest_books(tmp_path / "books")
    found = worse(look(tmp_path / "books"))
    assert "0.001675 credits, less than" in found["standby pot"]


def test_a_pot_that_lasts_is_told_and_none_is_not(tmp_path):
    world = world_with_vouchers(tmp_path)
    names = {finding.check for finding in look(tmp_path)}
    assert "standby pot" not in names
    with world.open(tmp_path) as store:
        fill_pot(store, 1_500_000)
    details = {finding.check: finding.detail for finding in look(tmp_path)}
    assert details["standby pot"] == "1.500000 credits"
    assert worse(look(tmp_path)) == {}


def test_a_backbone_that_does_not_show_rows_is_a_warning(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        draw(world, store)
        tab = new_tab(world, store)
        tab.file(store, *range(200))
        for each in draw(world, store)[:11]:
            assert worse(look(tmp_path)) == {}
            decide(store, each, state=AuditState.UNOPENED)
    told = worse(look(tmp_path))["audits"]
    assert "did not show rows in 11 of its last 11 audits" in told
    assert told.endswith("its new grants reach 1/2 of what it asks for")
