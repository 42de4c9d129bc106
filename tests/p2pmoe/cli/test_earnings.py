"""`p2pmoe earnings`: by day, from the own copy, with or without a running worker."""

import json

import pytest

from ledger.claims import FiledStatus
from ledger.periods import parse_period
from mobile_worker.servings.own_copy import OwnCopy, OwnReceipt
from p2pmoe.errors import ConfigurationError
from tests.support.answering_worker import answering_worker
from tests.support.commands import run_here
from tests.support.ledger_world import paper_tab


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("worker")
    tab, copy = paper_tab(), OwnCopy(path / "receipts")
    for n, day in enumerate(("2026-11-01", "2026-11-02", "2026-11-03")):
        status = FiledStatus.REJECTED if n == 2 else FiledStatus.STORED
        copy.add(
            OwnReceipt(
                signed=tab.next(2 * n, 2 * n + 1)[0],
                status=status,
                reason="grant" if n == 2 else "",
                answered_us=parse_period(day).start_us,
            )
        )
    return path


def test_by_day_with_what_was_rejected(folder):
    told = json.loads(run_here("earnings", "--data", folder, "--json").stdout)
    assert [day["day"] for day in told["days"]] == ["2026-11-01", "2026-11-02"]
    assert told["rejected"] == {"grant": 1}
    assert told["pending"] == {}
    shown = run_here("earnings", "--data", folder).stdout
    assert "2026-11-02\t2\t" in shown
    assert "rejected: grant\t1" in shown


def test_since_a_day_or_a_time(folder):
    words = ("earnings", "--data", folder, "--json", "--since")
    told = json.loads(run_here(*words, "2026-11-02").stdout)
    assert [day["day"] for day in told["days"]] == ["2026-11-02"]
    assert run_here(*words, "1s").exit_code == 0
    wrong = run_here(*words, "yesterday")
    assert isinstance(wrong.exception, ConfigurationError)


def test_a_running_worker_tells_what_is_pending(tmp_path):
    with answering_worker(tmp_path):
        told = json.loads(run_here("earnings", "--data", tmp_path, "--json").stdout)
    assert told["pending"] == {"vouchers to file": 0, "calls not signed yet": 0}
    assert told["days"] == []
