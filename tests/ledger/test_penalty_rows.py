"""Proofs as rows: all, of one worker, or the one that some digits name."""

import dataclasses

import pytest

from ledger.errors import NotFound
from ledger.penalty_rows import kept_proof, kept_proofs
from tests.support.disputes import closed_tab
from tests.support.ledger_world import Party, World


def test_proofs_are_found(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        tab = closed_tab(world, store)
        newest = tab.previous
        other = dataclasses.replace(newest, issued_us=newest.issued_us + 1)
        store.file(tab.sign(other), b"", tab.backbone.id).result(60)
        with store.reader().session() as connection:
            kept = kept_proofs(connection)
            assert kept_proofs(connection, worker=tab.worker.id) == kept
            assert kept_proofs(connection, worker=Party("x").id) == []
            for each in kept:
                digits = each.proof.name.hex()
                assert kept_proof(connection, digits[:8].upper()) == each.proof
            for wrong in ("", digits[:7], "0" * 65):
                with pytest.raises(NotFound):
                    kept_proof(connection, wrong)
    assert {each.is_of_worker for each in kept} == {True, False}
    assert {(each.tab, each.number) for each in kept} == {(newest.tab, newest.number)}
