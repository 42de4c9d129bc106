"""Standby pay over a real relay: from leases and checks to a line of the statement."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from ledger.database import Reader
from ledger.periods import ALL_TIME
from ledger.standby_sums import pot_uc
from ledger.statements import statement
from tests.support.generations import PROMPTS
from tests.support.networks import Network, network_running
from tests.support.trio_test import trio_test

EPOCH_S = 2
POT_UC = 100_000_000


async def asked(network: Network, *words: str) -> dict[str, Any]:
    """Run a command of the ledger beside the running one; return its JSON."""
    folder = ("--data", str(network.folder / "net"), "--json")
    done = await trio.run_process(
        [sys.executable, "-m", "p2pmoe", "ledger", *words, *folder],
        capture_stdout=True,
        stdin=subprocess.DEVNULL,
    )
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


@pytest.mark.slow
@trio_test
async def test_replicas_are_paid_and_all_verifies(tmp_path: Path) -> None:
    options = ("--price-epoch", str(EPOCH_S), "--standby", "1")
    with trio.fail_after(240):
        async with network_running(
            tmp_path, workers=["hub", "edge-1"], apart=False, market=options
        ) as network:
            fund = ("standby", "fund", "100", "--from", "outside", "--note", "test")
            await asked(network, *fund, "--commit")
            await asked(network, "policy", "set", "--standby", "1", "--commit")
            await network.answer(PROMPTS[0])
            report = await asked(network, "standby", "report")
            while report["pot_uc"] == POT_UC:
                await trio.sleep(EPOCH_S)
                report = await asked(network, "standby", "report")
            assert any(each["paid_uc"] for each in report["papers"])
            books = await network.close_the_books()
    assert books.accepted == books.n_receipts
    with Reader(network.ledger_folder).session() as connection:
        paid = [
            statement(connection, bytes.fromhex(worker), ALL_TIME).standby_uc
            for worker in network.peers.values()
        ]
        assert sum(paid) == POT_UC - pot_uc(connection) > 0
