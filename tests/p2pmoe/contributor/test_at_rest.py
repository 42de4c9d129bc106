"""A folder without a running worker: everything is told, what is broken in its line."""

from mobile_worker.session.identity import load_or_create
from p2pmoe.contributor.at_rest import report_at_rest


def lines(folder) -> dict[str, str]:
    report = report_at_rest(folder, "nobody there")
    assert report.fields["state"] == "not_running"
    return {line.name: line.text for line in report.lines}


def test_a_folder_that_is_not_there(tmp_path):
    told = lines(tmp_path / "none")
    assert told["state"] == "not running: nobody there"
    assert told["worker"].startswith("no key in")
    assert told["shards"] == "0 here, 0.0 MB"
    assert told["earned"] == "0.000000 credits filed with the ledger"
    assert told["limits"] == "preset quiet"
    assert not (tmp_path / "none").exists()


def test_what_lies_in_it_is_told(tmp_path):
    identity = load_or_create(tmp_path / "identity")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / f"{'a' * 64}.shard").write_bytes(b"x" * (1 << 20))
    (tmp_path / "limits.toml").write_text('[limits]\npreset = "max"\n')
    told = lines(tmp_path)
    identity.release()
    assert told["worker"] == identity.peer_id.hex()
    assert told["shards"] == "1 here, 1.0 MB"
    assert told["limits"] == "preset max"


def test_what_is_broken_keeps_nothing_else_from_being_told(tmp_path):
    (tmp_path / "receipts").mkdir()
    (tmp_path / "receipts" / "00000001.receipts").mkdir()
    (tmp_path / "limits.toml").write_text("[nonsense")
    (tmp_path / "shards").write_text("no folder")
    told = lines(tmp_path)
    for name in ("shards", "earned", "limits"):
        assert told[name].startswith("cannot be read: "), name
