"""Audit of disputes, equivocations, finals of one side, and what was refused."""

import pytest

from tests.support.audits import difference_after


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update dispute set claim_signature = zeroblob(64)", "does not verify"),
        ("update dispute set answer_signature = zeroblob(64)", "does not verify"),
        ("update dispute set answer_signature = null", "answer is"),
        ("update dispute set serving = serving + 1", "serving is"),
        ("update dispute set opener = respondent", "opener is"),
        ("update dispute set respondent = opener", "respondent is"),
        ("update dispute set reason = 'unknown_rows' where id = 1", "reason is"),
        ("update dispute set answer_due_us = answer_due_us + 1", "answer due"),
        (
            "update dispute set opened_us = opened_us + 864000000000, "
            "answer_due_us = answer_due_us + 864000000000",
            "outside of its voucher's window",
        ),
        ("update dispute set answered_us = answer_due_us where id = 1", "too late"),
        ("update dispute set decided_us = null where id = 1", "decided is False"),
        ("update dispute set decided_us = 1 where id = 1", "decided before"),
        ("update dispute set state = 'upheld' where id = 1", "state is upheld"),
        ("update dispute set verdict = 'because' where id = 1", "'because' can be"),
        ("update dispute set verdict = 'no answer in time' where id = 1", "can be"),
        ("update dispute set verdict = 'no referee in time' where id = 1", "can be"),
        ("update dispute set verdict = 'the rows were opened' where id = 1", "can be"),
        (
            "update dispute set verdict = 'voucher reversed by dispute 1' where id = 3",
            "not so: it was ended so",
        ),
        ("update dispute set state = 'answered' where id = 5", "state and verdict"),
        ("update dispute set voucher_id = 1 where id = 1", "voucher is"),
        ("update equivocation set first_signature = zeroblob(64)", "does not verify"),
        ("update equivocation set number = number + 1", "number is"),
        (
            "update equivocation set digest = zeroblob(32) where signer = worker",
            "digest",
        ),
        ("update one_sided set backbone_signature = zeroblob(64)", "does not verify"),
        ("update one_sided set amount_uc = amount_uc + 1", "amount_uc is"),
        ("update one_sided set state = 'expired'", "state is expired"),
        ("update one_sided set state = 'held'", "not so: its key is open"),
        ("update one_sided set leaves = zeroblob(79)", "leaves kept"),
        ("update rejected set worker_signature = zeroblob(64)", "digest is"),
    ],
)
def test_every_paper_holds(change, found):
    assert found in difference_after(change)
