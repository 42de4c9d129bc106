"""`ledger equivocation`: proofs are listed, exported, and taken from others."""

import dataclasses
import json

import pytest

from ledger.equivocation import EquivocationProof, equivocations, verify_equivocation
from ledger.errors import DifferenceFound, FormatRefused, NotFound, ProofRefused
from tests.support.disputes import closed_tab
from tests.support.ledger_commands import document_of, run
from tests.support.ledger_world import World


@pytest.fixture
def two_bodies(tmp_path):
    """A ledger with a closed tab, and another body of its last voucher."""
    world = World()
    path = tmp_path / "ledger"
    with world.open(path) as store:
        tab = closed_tab(world, store)
    newest = tab.previous
    other = dataclasses.replace(newest, issued_us=newest.issued_us + 1)
    return path, tab, tab.sign(newest), tab.sign(other)


def test_proofs_are_listed_and_exported(two_bodies, tmp_path):
    path, tab, _, other = two_bodies
    with tab.world.open(path) as store:
        store.file(other, b"", tab.backbone.id).result(60)
    listed = document_of(path, "equivocation", "list")["proofs"]
    assert {row["signer_is"] for row in listed} == {"worker", "backbone"}
    of_worker = ("equivocation", "list", "--worker", tab.worker.id.hex()[:8])
    assert len(document_of(path, *of_worker)["proofs"]) == 2
    name = listed[0]["proof"]
    file = tmp_path / "proof"
    words = ("equivocation", "export", name[:10], "-o", str(file))
    assert run(path, *words).exit_code == 0
    proof = EquivocationProof.parse(file.read_bytes())
    assert proof.name.hex() == name
    verify_equivocation(proof, tab.world.network.id)
    verified = document_of(path, "equivocation", "verify", str(file))
    assert (verified["verified"], verified["number"]) == (True, 1)
    network = ("--network", "0" * 64)
    elsewhere = run(tmp_path, "equivocation", "verify", str(file), *network)
    assert isinstance(elsewhere.exception, DifferenceFound)
    for digits in (name[:7], "f" * 64):
        missing = run(path, "equivocation", "export", digits, "-o", str(file))
        assert isinstance(missing.exception, NotFound)
    assert b"tab-0001".hex() in run(path, "equivocation", "list").stdout


def test_a_report_is_dry_until_it_is_committed(two_bodies, tmp_path):
    path, tab, left, right = two_bodies
    [proof, _] = equivocations(left, right)
    file = tmp_path / "proof"
    file.write_bytes(proof.pack())
    dry = run(path, "equivocation", "report", str(file))
    assert dry.exit_code == 0
    assert "committed\tFalse" in dry.stdout
    assert document_of(path, "equivocation", "list") == {"proofs": []}
    words = ("equivocation", "report", str(file), "--commit")
    done = document_of(path, *words)
    lost_uc = tab.previous.amount_uc // 10
    assert (done["committed"], done["forfeited_uc"]) == (True, lost_uc)
    assert json.loads(run(path, *words, "--json").stdout)["known"] is True


def test_what_is_no_proof_is_refused(two_bodies, tmp_path):
    path, _, left, right = two_bodies
    [proof, _] = equivocations(left, right)
    file = tmp_path / "proof"
    for raw, error in (
        (b"noise", FormatRefused),
        (dataclasses.replace(proof, second=proof.first).pack(), ProofRefused),
    ):
        file.write_bytes(raw)
        result = run(path, "equivocation", "report", str(file), "--commit")
        assert isinstance(result.exception, error)
