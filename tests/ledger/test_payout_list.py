"""Payouts as documents: stable names, exact amounts, UTC."""

from ledger.payout_list import PAYOUT_COLUMNS, payout_rows, payouts
from tests.support.paid_world import RATE, PaidWorld, payee_rows


def test_a_payout_says_everything_about_itself(tmp_path):
    world = PaidWorld(tmp_path, 2)
    with world.open(tmp_path) as store:
        params = {"period": "2026-11", "adapter": "http", "rate": RATE, "commit": True}
        params["payees"] = payee_rows(*world.workers)
        done = store.operate("payout.prepare", params).result(60)
        with store.reader().session() as connection:
            rows = payouts(connection)
            assert set(PAYOUT_COLUMNS) <= set(rows[0])
            by_id = {row["id"]: row for row in rows}
            for one in done["payouts"]:
                row = by_id[one["id"]]
                names = ("worker", "attempt", "destination", "amount_uc", "money")
                assert {n: row[n] for n in names} == {n: one[n] for n in names}
                assert row["prepared"] == "2026-12-01T00:00:00.000000Z"
                assert (row["rate"], row["currency"]) == ("10/1", "EUR")
            assert payouts(connection, period_id=1) == rows
            assert payouts(connection, period_id=2) == []
            ids = [bytes.fromhex(row["id"]) for row in rows]
            assert list(payout_rows(connection, ids)) != []
