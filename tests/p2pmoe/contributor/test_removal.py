"""What a purge removes: what a worker made, and nothing of anybody else's."""

from ledger.spool import Spool
from mobile_worker.servings.filing import SpoolKind
from p2pmoe.contributor.removal import Loss, loss_of, purge


def filled(folder):
    for name in ("shards", "spool", "receipts"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("x")
    for name in ("identity", "limits.toml", "governor.json", "page.key"):
        (folder / name).write_text("x")
    return folder


def test_a_workers_folder_goes_whole(tmp_path):
    folder = filled(tmp_path / "worker")
    assert purge(folder)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_a_workers_stays(tmp_path):
    folder = filled(tmp_path / "home")
    (folder / "thesis.tex").write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    (folder / "spool" / "file").unlink()
    (folder / "spool").rmdir()
    (folder / "spool").symlink_to(elsewhere)
    assert not purge(folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]
    assert (elsewhere / "file").read_text() == "mine"
    assert not purge(tmp_path)
    assert purge(tmp_path / "none")


def test_what_would_be_lost_is_known_before(tmp_path):
    assert loss_of(tmp_path) == Loss(has_key=False, n_unfiled=0)
    with Spool(tmp_path / "spool") as spool:
        for kind in (SpoolKind.SETTLED, SpoolKind.PROPOSAL, SpoolKind.SETTLED):
            spool.append(kind, b"payload")
        spool.sync()
    (tmp_path / "identity").write_text("x")
    assert loss_of(tmp_path) == Loss(has_key=True, n_unfiled=2)
    (tmp_path / "spool" / "00000001.spool").write_bytes(b"\1" * 200)
    assert loss_of(tmp_path).n_unfiled in (0, 1)
