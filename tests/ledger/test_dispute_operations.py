"""The operations' documents: JSON values, no opened bytes, dry unless committed."""

import json

from ledger.dispute_operations import DISPUTE_OPERATIONS, dispute_document
from ledger.dispute_rows import dispute_by_id
from ledger.operations import OPERATIONS
from tests.support.dispute_papers import answer_of, claim_of
from tests.support.disputes import answered, closed_tab, judged, opened
from tests.support.ledger_world import HOUR_US, World


def test_they_are_operations_of_the_ledger():
    assert DISPUTE_OPERATIONS.items() <= OPERATIONS.items()
    assert all(operation.__doc__ for operation in DISPUTE_OPERATIONS.values())


def test_a_dispute_as_json_from_its_opening_to_its_end(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        tab = closed_tab(world, store)
        claim = claim_of(tab, 2)
        first = opened(store, claim, tab.backbone)
        assert first == {
            "id": 1,
            "state": "open",
            "reason": "wrong_results",
            "voucher": claim.voucher.hex(),
            "serving": 2,
            "worker": tab.worker.id.hex(),
            "backbone": tab.backbone.id.hex(),
            "opened_by": "backbone",
            "opened_us": world.now_us,
            "answer_due_us": world.now_us + 24 * HOUR_US,
            "answered_us": None,
            "judge_due_us": None,
            "decided_us": None,
            "verdict": "",
        }
        second = answered(store, answer_of(tab, claim), tab.worker)
        assert second["answered_us"] == world.now_us
        answer = judged(store, 1, claim.leaf.out_hash, commit=False)
        assert answer["dispute"] == second
        answer = judged(store, 1, claim.leaf.out_hash)
        assert answer["dispute"]["verdict"].startswith("recomputed ")
        assert json.loads(json.dumps(answer)) == answer
        with store.reader().session() as connection:
            assert dispute_document(dispute_by_id(connection, 1)) == answer["dispute"]
