"""A worker's own side of its pay: its copy against the ledger behind a real relay."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.generations import PROMPTS
from tests.support.networks import Network, network_running
from tests.support.trio_test import trio_test


async def receipts(network: Network, worker: str, *words: str) -> tuple[int, Any]:
    """Run `p2pmoe receipts`; return its code, and the JSON or line that it prints."""
    done = await trio.run_process(
        [
            *(sys.executable, "-m", "p2pmoe", "receipts", *words),
            *("--data", str(network.folder / worker)),
        ],
        capture_stdout=True,
        capture_stderr=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    text = done.stdout.decode()
    assert done.stderr.count(b"\n") <= 1, done.stderr
    return done.returncode, json.loads(text) if "--json" in words else text


@pytest.mark.slow
@trio_test
async def test_b33_a_workers_own_copy_agrees_with_the_ledger(tmp_path: Path) -> None:
    with trio.fail_after(600):
        async with network_running(tmp_path, workers=["hub"], apart=False) as network:
            while not await network.calls("hub"):  # it serves in its turn
                await network.answer(PROMPTS[0])
            await network._stop_worker("hub")  # what it served is filed, and final
            asked = ("--invite", network.invite, "--json")
            code, verified = await receipts(network, "hub", "verify", *asked)
            assert (code, verified["differing"]) == (0, 0)
            assert verified["servings"] > 0
            _, statement = await receipts(network, "hub", "statement", *asked)
            assert statement["worker"] == network.peers["hub"]
            assert statement["earned_uc"] == verified["amount_uc"] > 0
            _, listed = await receipts(network, "hub", "list", "--json")
            assert len(listed["receipts"]) == verified["receipts"]
            code, link = await receipts(
                network, "hub", "login", "--invite", network.invite
            )
            assert code == 0
            assert link.startswith("https://127.0.0.1:")
            assert "/ledger#session=" in link
            await network.kill("relay")
            code, _ = await receipts(network, "hub", "verify", *asked[:2])
            assert code == 2
            await network.start("relay")
            code, again = await receipts(network, "hub", "verify", *asked)
            assert (code, again) == (0, verified)
