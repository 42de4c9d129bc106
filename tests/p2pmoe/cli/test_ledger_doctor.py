"""`p2pmoe ledger doctor`: rows, JSON, and the exit code of a fault."""

import json

from tests.support.ledger_commands import document_of, run, world_with_vouchers


def test_a_sound_ledger(tmp_path):
    world_with_vouchers(tmp_path)
    for words in (("doctor",), ("doctor", "--full")):
        document = document_of(tmp_path, *words)
        assert document["sound"] is True
        assert {"database", "disk", "log"} <= {c["check"] for c in document["checks"]}
    lines = run(tmp_path, "doctor").stdout.splitlines()
    assert lines[0] == "check\tstate\tdetail"


def test_a_fault_ends_with_1(tmp_path):
    world_with_vouchers(tmp_path)
    leaves = tmp_path / "leaves" / "00000001.leaves"
    leaves.write_bytes(leaves.read_bytes()[:-1])
    result = run(tmp_path, "doctor", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    [fault] = [c for c in document["checks"] if c["state"] == "fault"]
    assert document["sound"] is False
    assert fault["check"] == "leaf files"
    assert "00000001.leaves has" in fault["detail"]
