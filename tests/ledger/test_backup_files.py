"""A backup's files: names, list, hostile archives."""

import contextlib
import io
import json
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.backup_files import (
    LIST_NAME,
    BackupList,
    FileEntry,
    extract,
    is_archive,
    is_backup_name,
    open_sink,
)
from ledger.errors import BackupRefused

FILES = {"ledger.sqlite3": b"rows", "leaves/00000001.leaves": b"l" * 79}


def write(target, files=FILES) -> BackupList:
    with open_sink(target) as sink:
        entries = {
            name: sink.add(name, io.BytesIO(raw), len(raw))
            for name, raw in files.items()
        }
        backup = BackupList(schema=2, taken_us=5, files=entries)
        raw = backup.pack()
        sink.add(LIST_NAME, io.BytesIO(raw), len(raw))
    return backup


@pytest.mark.parametrize("name", ["b", "b.tar"])
def test_what_is_written_comes_back(tmp_path, name):
    backup = write(tmp_path / name)
    assert extract(tmp_path / name, tmp_path / "out") == backup
    for each, raw in FILES.items():
        assert (tmp_path / "out" / each).read_bytes() == raw
    assert is_archive(tmp_path / name) == name.endswith(".tar")


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("ledger.sqlite3", True),
        ("leaves/00000001.packed", True),
        ("leaves/00000001.pruned", True),
        ("log/checkpoint", True),
        ("log/tile/0/000", True),
        ("database.url", False),
        ("../ledger.sqlite3", False),
        ("/ledger.sqlite3", False),
        ("leaves/../00000001.leaves", False),
        ("leaves/1.leaves", False),
        ("log/../checkpoint", False),
        ("ledger.sqlite3-wal", False),
    ],
)
def test_only_these_names(name, is_known):
    assert is_backup_name(name) is is_known


@pytest.mark.parametrize("name", ["b", "b.tar"])
def test_a_file_that_ends_before_is_refused(tmp_path, name):
    with (
        pytest.raises(BackupRefused, match="early"),
        open_sink(tmp_path / name) as sink,
    ):
        sink.add("ledger.sqlite3", io.BytesIO(b"abc"), 4)


def member(name: str, raw: bytes = b"", **fields: object) -> tuple:
    info = tarfile.TarInfo(name)
    info.size = len(raw)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, io.BytesIO(raw)


@pytest.mark.parametrize(
    "evil",
    [
        member("../ledger.sqlite3", b"x"),
        member("/etc/cron.d/x", b"x"),
        member("leaves/00000001.leaves", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("leaves/00000001.leaves", type=tarfile.LNKTYPE, linkname="x"),
        member("leaves", type=tarfile.DIRTYPE),
        member("leaves/00000001.leaves", type=tarfile.FIFOTYPE),
        member("leaves/00000001.leaves", b"", type=tarfile.GNUTYPE_SPARSE),
    ],
)
def test_an_archive_with_anything_else_is_refused(tmp_path, evil):
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        archive.addfile(*evil)
    with pytest.raises(BackupRefused, match="holds"):
        extract(tmp_path / "b.tar", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archive_that_ends_within_a_file_is_refused(tmp_path):
    whole = tmp_path / "b.tar"
    write(whole)
    cut = tmp_path / "cut.tar"
    for length in range(0, 1024, 100):
        cut.write_bytes(whole.read_bytes()[:length])
        with pytest.raises(BackupRefused, match="whole"):
            extract(cut, tmp_path / f"out{length}")


def test_a_list_of_lists_of_lists_is_refused():
    with pytest.raises(BackupRefused, match="no list"):
        BackupList.parse(b"[" * 200_000)


def test_twice_the_same_after_the_list_and_without_one(tmp_path):
    for n, (extra, reason) in enumerate(
        [
            ([member("ledger.sqlite3", b"a"), member("ledger.sqlite3", b"b")], "twice"),
            ([member(LIST_NAME, b"{}"), member("ledger.sqlite3", b"a")], "goes on"),
            ([member("ledger.sqlite3", b"a")], "not whole"),
        ]
    ):
        with tarfile.open(tmp_path / f"{n}.tar", "w") as archive:
            for each in extra:
                archive.addfile(*each)
        with pytest.raises(BackupRefused, match=reason):
            extract(tmp_path / f"{n}.tar", tmp_path / str(n))


@pytest.mark.parametrize("name", FILES)
def test_a_changed_missing_or_added_file_is_refused(tmp_path, name):
    changes = [
        lambda folder: (folder / name).write_bytes(b"other"),
        lambda folder: (folder / name).unlink(),
        lambda folder: (folder / "leaves/00000002.leaves").touch(),
    ]
    for n, change in enumerate(changes):
        write(tmp_path / f"b{n}")
        change(tmp_path / f"b{n}")
        with pytest.raises(BackupRefused, match="not as listed"):
            extract(tmp_path / f"b{n}", tmp_path / f"out{n}")


def test_a_folder_with_a_link_is_refused_and_strangers_are_left_alone(tmp_path):
    write(tmp_path / "b")
    (tmp_path / "b" / "README").write_text("mine")
    extract(tmp_path / "b", tmp_path / "out")
    assert not (tmp_path / "out" / "README").exists()
    (tmp_path / "b" / "leaves" / "00000002.leaves").symlink_to("/etc/passwd")
    with pytest.raises(BackupRefused, match="plain file"):
        extract(tmp_path / "b", tmp_path / "out2")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "b.tar"
    write(path)
    return path


@settings(max_examples=20)
@given(at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_changes_nothing(archive, at, bit):
    raw = bytearray(archive.read_bytes())
    raw[at % len(raw)] ^= 1 << bit
    folder = archive.parent / f"{at}-{bit}"
    flipped = folder.with_suffix(".tar")
    flipped.write_bytes(raw)
    try:
        with contextlib.suppress(BackupRefused):
            backup = extract(flipped, folder)
            assert set(backup.files) == set(FILES)
            for name, content in FILES.items():
                assert (folder / name).read_bytes() == content
    finally:
        flipped.unlink()
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another"},
        {"version": 2},
        {"schema": -1},
        {"schema": True},
        {"taken_us": 1.5},
        {"files": {}},
        {"files": {"../x": {"bytes": 0, "sha256": "0" * 64}}},
        {"files": {"ledger.sqlite3": {"bytes": "1", "sha256": "0" * 64}}},
        {"files": {"ledger.sqlite3": {"bytes": 1, "sha256": "0"}}},
        {"files": []},
    ],
)
def test_a_strange_list_is_refused(change):
    good = BackupList(
        schema=2, taken_us=1, files={"ledger.sqlite3": FileEntry(1, bytes(32))}
    )
    assert BackupList.parse(good.pack()) == good
    document = json.loads(good.pack()) | change
    with pytest.raises(BackupRefused):
        BackupList.parse(json.dumps(document).encode())
    for raw in (b"", b"\xff", b"[]", b"null", good.pack()[:-9]):
        with pytest.raises(BackupRefused):
            BackupList.parse(raw)
