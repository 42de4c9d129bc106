"""What a process holds and has read, as the system tells it."""

from p2pmoe.backbone.mapped import process_figures as module
from p2pmoe.backbone.mapped.process_figures import (
    ProcessCounts,
    ProcessFigures,
    parse_io,
    parse_status,
    process_counts,
    process_figures,
)

STATUS = """Name:	p2pmoe
VmSize:	  260018 kB
VmRSS:	   42377 kB
VmSwap:	 12 kB
Threads:	3
"""
IO = "rchar: 12\nread_bytes: 4096\ncancelled_write_bytes: 0\n"


def test_sizes_are_bytes():
    found = parse_status(STATUS)
    assert found["VmRSS"] == 42377 * 1024
    assert found["VmSwap"] == 12 * 1024
    assert "Threads" not in found


def test_what_is_not_told_is_left_out():
    assert parse_status("") == parse_io("") == {}
    assert parse_status("VmRSS: lots kB\nVmRSS:\n") == {}
    assert parse_io("read_bytes: many\n:::\n") == {}


def test_counters_are_numbers():
    assert parse_io(IO) == {"rchar": 12, "read_bytes": 4096, "cancelled_write_bytes": 0}


def test_this_process_has_memory_and_faults():
    figures = process_figures()
    assert figures.minor_faults > 0
    assert figures.major_faults >= 0
    assert figures.virtual_bytes >= figures.resident_bytes


def test_without_proc_faults_are_told_all_the_same(monkeypatch):
    monkeypatch.setattr(module, "_text", lambda _: "")
    figures = process_figures()
    assert (figures.resident_bytes, figures.read_bytes) == (0, 0)
    assert figures.minor_faults > 0


def test_counts_are_told_from_a_moment_on():
    before = ProcessCounts(10, 2, 4096)
    assert ProcessCounts(15, 3, 8192).since(before) == ProcessCounts(5, 1, 4096)
    assert process_counts().since(process_counts()).read_bytes >= 0


def test_the_counts_of_earlier_lives_are_added():
    now, before = (
        ProcessFigures(1, 2, 3, 4, 5, 6),
        ProcessFigures(10, 20, 30, 40, 50, 60),
    )
    assert now.after(before) == ProcessFigures(1, 2, 3, 44, 55, 66)
