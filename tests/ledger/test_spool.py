"""The spool: nothing synced is lost, torn ends are cut, damage is told."""

import os

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ledger import spool as module
from ledger.errors import SpoolCorrupt, SpoolFull, StoreUnavailable
from ledger.spool import Spool


def held(spool: Spool) -> list[tuple[int, int, bytes]]:
    return [(e.id, e.kind, e.payload) for e in spool.entries()]


def fill(spool: Spool) -> None:
    for _ in range(40):
        spool.append(1, bytes(90))


def only_file(folder):
    (path,) = folder.glob("*.spool")
    return path


def test_entries_come_back_until_released(tmp_path):
    with Spool(tmp_path) as spool:
        one, two, three = (spool.append(k, b"p%d" % k) for k in (1, 2, 3))
        spool.sync()
        spool.release([two, 99])
        assert len(spool) == 2
    with Spool(tmp_path) as spool:
        assert held(spool) == [(one, 1, b"p1"), (three, 3, b"p3")]
        assert spool.append(4, b"") == three + 1
        spool.release([one, three])
        assert held(spool) == [(three + 1, 4, b"")]


def test_a_torn_end_is_cut_wherever_it_tears(tmp_path):
    with Spool(tmp_path / "whole") as spool:
        spool.append(1, b"first")
        spool.sync()
        size = spool.n_bytes
        spool.append(2, b"second")
    raw = only_file(tmp_path / "whole").read_bytes()
    for cut in range(size, len(raw)):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        (folder / "00000001.spool").write_bytes(raw[:cut] + bytes(cut % 3))
        with Spool(folder) as spool:
            assert [e.payload for e in spool.entries()] == [b"first"]
            spool.append(3, b"third")
        with Spool(folder) as spool:
            assert [e.payload for e in spool.entries()] == [b"first", b"third"]


def test_blocks_lost_before_a_sync_are_no_damage(tmp_path):
    with Spool(tmp_path) as spool:
        spool.append(1, b"first")
        spool.sync()
        start = spool.n_bytes
        spool.append(2, b"lost by the disk")
        spool.append(3, b"kept by chance")
    path = only_file(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[start : start + 20] = bytes(20)
    path.write_bytes(raw)
    with Spool(tmp_path) as spool:
        assert [e.payload for e in spool.entries()] == [b"first"]


def test_damage_of_what_was_durable_is_told_with_its_place(tmp_path):
    with Spool(tmp_path) as spool:
        spool.append(1, b"first")
        spool.sync()
        spool.append(2, b"second")
    path = only_file(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[22] ^= 1
    path.write_bytes(raw)
    with pytest.raises(SpoolCorrupt, match="damaged at byte 0"):
        Spool(tmp_path)


def test_files_roll_and_are_dropped_when_released(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 200)
    with Spool(tmp_path) as spool:
        ids = [spool.append(1, bytes(90)) for _ in range(20)]
        assert len(list(tmp_path.glob("*.spool"))) > 5
        spool.release(ids[:-1])
        assert len(list(tmp_path.glob("*.spool"))) <= 2
    with Spool(tmp_path) as spool:
        assert [e.id for e in spool.entries()] == ids[-1:]


def test_the_bound_holds_and_one_old_entry_does_not_fill_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 300)
    with Spool(tmp_path, max_bytes=2000) as spool:
        old = spool.append(7, b"old")
        for _ in range(100):
            spool.release([spool.append(1, bytes(90))])
            assert spool.n_bytes <= 2100
        assert held(spool) == [(old, 7, b"old")]
        with pytest.raises(SpoolFull):
            fill(spool)
        n = len(spool)
    with Spool(tmp_path) as spool:
        assert len(spool) == n


def test_arguments_are_checked(tmp_path):
    with Spool(tmp_path) as spool:
        for kind, payload in ((255, b""), (-1, b""), (1, bytes((4 << 20) + 1))):
            with pytest.raises(ValueError, match="spool entry"):
                spool.append(kind, payload)


def test_a_full_disk_leaves_no_half_record(tmp_path, monkeypatch):
    with Spool(tmp_path) as spool:
        spool.append(1, b"first")
        real = os.write
        monkeypatch.setattr(os, "write", lambda fd, raw: real(fd, raw[:5]))
        with pytest.raises(StoreUnavailable, match="No space left"):
            spool.append(2, b"second")
        monkeypatch.undo()
        spool.append(3, b"third")
        assert [e.payload for e in spool.entries()] == [b"first", b"third"]
    with Spool(tmp_path) as spool:
        assert [e.payload for e in spool.entries()] == [b"first", b"third"]


def test_after_a_failed_sync_nothing_more_is_promised(tmp_path, monkeypatch):
    spool = Spool(tmp_path)
    spool.append(1, b"first")

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreUnavailable):
        spool.sync()
    monkeypatch.undo()
    with pytest.raises(StoreUnavailable):
        spool.append(2, b"second")
    spool.close()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable):
        Spool(tmp_path / "file" / "spool")


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.binary(max_size=40)),
            st.tuples(st.just("release"), st.integers(1, 20)),
            st.tuples(st.just("reopen"), st.none()),
        ),
        max_size=30,
    )
)
def test_against_a_dictionary(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("spool")
    spool, model = Spool(folder), {}
    for step, value in steps:
        if step == "append":
            model[spool.append(1, value)] = value
        elif step == "release":
            spool.release([value])
            model.pop(value, None)
        else:
            spool.close()
            spool = Spool(folder)
        assert {e.id: e.payload for e in spool.entries()} == model
    spool.close()
