"""The log as a program of others reads it: same roots, proofs, notes, cosignatures.

aics-tlog verifies C2SP logs and shares no code with this one. It needs Python 3.12, so
under 3.11 this is left out.
"""

import pytest

from ledger.log.checkpoint import cosign, log_key, witness_key
from ledger.log.cosigning import log_cosign
from ledger.log.folder import LogFolder
from tests.support.ledger_world import Party
from tests.support.log_world import LogWorld

aics_tlog = pytest.importorskip("aics_tlog", reason="aics-tlog needs Python 3.12")

ANNA = Party("anna")
SIZE = 557


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    key = witness_key("example.com/anna", ANNA.id)
    with LogWorld(tmp_path_factory.mktemp("log") / "ledger") as books:
        for n in (1, 254, 1, 1, 300):
            books.close(n)
            books.publish()
        note = cosign(LogFolder(books.log).checkpoint(), key, ANNA.sign, 1_793_491_200)
        books.operate(log_cosign, note=note.pack().hex(), witness=key.text)
        books.publish()
        yield books


def test_tiles_and_entries(books):
    reader = aics_tlog.FileSystemTileReader(str(books.log))
    tree = LogFolder(books.log).tree(SIZE)
    assert aics_tlog.tree_root_from_tiles(reader, SIZE) == tree.root
    aics_tlog.audit_tiles(reader, SIZE, tree.root, entries=True)
    for index in (0, 1, 255, 256, 511, 512, SIZE - 1):
        proof = aics_tlog.inclusion_proof_from_tiles(reader, index, SIZE)
        assert tuple(proof) == tree.inclusion(index)
        entry = aics_tlog.read_entry(reader, index, SIZE)
        assert aics_tlog.verify_leaf_inclusion(entry, index, SIZE, proof, tree.root)
    for old in (1, 255, 256, 257, SIZE):
        proof = aics_tlog.consistency_proof_from_tiles(reader, old, SIZE)
        assert tuple(proof) == tree.consistency(old)
        old_root = LogFolder(books.log).tree(old).root
        assert aics_tlog.verify_consistency(old, SIZE, old_root, tree.root, proof)


def test_checkpoint_and_cosignature(books):
    ours = log_key(books.world.network.id, books.world.ledger.id)
    theirs = aics_tlog.parse_vkey(ours.text)
    anna = aics_tlog.parse_vkey(witness_key("example.com/anna", ANNA.id).text)
    note = aics_tlog.parse_note((books.log / "checkpoint").read_bytes())
    result = aics_tlog.verify_checkpoint(
        note, theirs, [anna], 1, expected_origin=ours.name
    )
    assert result.ok, result.error
    assert (result.size, result.witnesses) == (SIZE, ["example.com/anna"])
