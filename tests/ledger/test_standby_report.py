"""Papers and pays as people ask for them."""

from ledger.database import Reader
from ledger.periods import ALL_TIME, parse_period
from ledger.standby_report import PAPER_COLUMNS, PAY_COLUMNS, paper_rows, pay_rows
from tests.support.honest_books import copy_of_honest_books
from tests.support.ledger_world import Party


def test_papers_and_who_got_what(tmp_path):
    copy_of_honest_books(tmp_path / "books")
    with Reader(tmp_path / "books").session() as connection:
        first, second = paper_rows(connection, ALL_TIME)
        ada = pay_rows(connection, Party("ada").id, ALL_TIME)
        nobody = pay_rows(connection, Party("nobody").id, ALL_TIME)
        assert paper_rows(connection, parse_period("2027")) == []
    assert set(PAPER_COLUMNS) <= set(first)
    assert set(PAY_COLUMNS) <= set(ada[0])
    assert (first["replicas"], first["paid_uc"], first["unknown_uc"]) == (4, 1998, 0)
    assert (second["replicas"], second["unknown_uc"]) == (6, 666)
    assert second["epoch"] == first["epoch"] + 1
    assert [row["state"] for row in ada] == ["paid", "paid"]
    assert [row["state"] for row in nobody] == ["unknown"]
