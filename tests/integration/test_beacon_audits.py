"""Beacon audits over a real relay: what was served is drawn, opened, recomputed."""

from pathlib import Path

import pytest
import trio

from ledger.beacon_report import audit_records
from ledger.beacon_words import AuditState
from ledger.database import Reader
from tests.support.generations import PROMPTS
from tests.support.networks import Network, network_running
from tests.support.trio_test import trio_test

ENOUGH = 20
DECIDED_WITHIN_S = 30.0


def counts(network: Network) -> dict[AuditState, int]:
    """How many audits of all workers stand where."""
    with Reader(network.ledger_folder).session() as connection:
        records = audit_records(connection, by_backbone=False)
    return {state: sum(each.of(state) for each in records) for state in AuditState}


async def enough_passed(network: Network) -> None:
    """Ask until so many audits have passed: how many one answer gives is chance."""
    while True:
        await network.answer(PROMPTS[0])
        with trio.move_on_after(DECIDED_WITHIN_S):
            while True:
                if counts(network)[AuditState.PASSED] >= ENOUGH:
                    return
                await trio.sleep(0.2)


@pytest.mark.slow
@trio_test
async def test_honest_servings_are_drawn_opened_and_passed(tmp_path: Path) -> None:
    with trio.fail_after(600):
        workers = ["hub", "edge-1"]
        async with network_running(tmp_path, workers=workers, apart=False) as network:
            await enough_passed(network)
            found = counts(network)
            await network.close_the_books()  # both verifiers draw again
    assert found[AuditState.FAILED] == 0
    assert found[AuditState.UNOPENED] == 0
