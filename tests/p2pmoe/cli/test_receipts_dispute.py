"""`receipts dispute|answer`: the signed papers, made by either side."""

import pytest

from ledger.dispute_papers import DisputeClaim, split_paper
from ledger.errors import DifferenceFound, FormatRefused, NotFound
from mobile_worker.clock import SystemClock
from mobile_worker.errors import IdentityError
from p2pmoe.errors import ConfigurationError
from tests.support.dispute_commands import DisputeCase, done, refused
from tests.support.ledger_world import NOVEMBER_US
from tests.support.served_leaf import identity_folder, serving


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    """Compute by numpy, and let it be the time of the tests' worlds."""
    monkeypatch.setenv("P2PMOE_KERNEL", "numpy")
    monkeypatch.setattr(SystemClock, "wall_us", lambda _: NOVEMBER_US)


def test_a_worker_that_cheated_finds_no_answer(tmp_path):
    case = DisputeCase(tmp_path, bytes(len(serving().results)))
    words = ("receipts", "answer", case.claim(), "-o", tmp_path / "answer")
    model = ("--model", "pocket", "--receipt", case.receipt)
    refused(DifferenceFound, "its rows give", *words, *model, *case.worker)
    assert not (tmp_path / "answer").exists()


def test_the_worker_claims_by_its_results(tmp_path):
    case = DisputeCase(tmp_path, serving().results)
    words = ("--opened", tmp_path / "results", "-o", tmp_path / "claim")
    done("receipts", "dispute", case.receipt, *words, *case.worker)
    raw, _ = split_paper((tmp_path / "claim").read_bytes())
    assert DisputeClaim.parse(raw).opener == case.tab.worker.id
    rows = ("--opened", tmp_path / "rows", "-o", tmp_path / "answer")
    done("receipts", "answer", tmp_path / "claim", *rows, *case.backbone)


def test_what_is_refused_names_the_reason(tmp_path):
    case = DisputeCase(tmp_path, serving().results)
    claim = case.claim()
    stranger = ("--data", identity_folder(tmp_path / "stranger", "stranger"))
    dispute = ("receipts", "dispute", case.receipt, "-o", tmp_path / "new")
    answer = ("receipts", "answer", claim, "-o", tmp_path / "new")
    rows, results = (("--opened", tmp_path / n) for n in ("rows", "results"))
    for error, match, words in (
        (ConfigurationError, "neither worker nor", (*dispute, *rows, *stranger)),
        (Exception, "opened rows have hash", (*dispute, *results, *case.backbone)),
        (IdentityError, "no such file", (*dispute, *rows, "--data", tmp_path / "no")),
        (ConfigurationError, "opener's own", (*answer, *rows, *case.backbone)),
        (ConfigurationError, "either --opened or", (*answer, *case.worker)),
        (Exception, "opened results have hash", (*answer, *rows, *case.worker)),
        (ConfigurationError, "its receipt", (*answer, "--model", "p", *case.worker)),
        (
            ConfigurationError,
            "no such file",
            (*answer, "--opened", tmp_path / "none", *case.worker),
        ),
        (
            FormatRefused,
            "no claim",
            ("ledger", "dispute", "open", rows[1], *case.data),
        ),
        (NotFound, "no dispute 1", ("ledger", "dispute", "show", 1, *case.data)),
        (
            ConfigurationError,
            "is none of",
            ("ledger", "dispute", "list", "--state", "x", *case.data),
        ),
    ):
        refused(error, match, *words)
    again = ("receipts", "dispute", case.receipt, *rows, "-o", claim, *case.backbone)
    refused(ConfigurationError, "file exists", *again)
