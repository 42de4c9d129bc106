"""A memory cgroup of our own holds what runs in it, and leaves nothing behind."""

import os
import subprocess
import sys

import pytest

from tests.support import cgroups
from tests.support.cgroups import NoGroups, memory_group, memory_group_or_skip

MIB = 1 << 20
HOLDER = "b = bytearray(30 * 2**20); print(len(b), flush=True); input()"


def test_what_runs_in_it_is_counted_and_killed_with_it():
    with memory_group_or_skip(100 * MIB) as group:
        child = subprocess.Popen(
            group.command(sys.executable, "-c", HOLDER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        child.stdout.readline()
        assert group.pids() == [child.pid]
        assert 30 * MIB < group.use().anonymous < group.use().used <= 100 * MIB
        assert group.use().swapped == 0
    assert child.wait(10) == -9
    assert not group.folder.exists()
    child.communicate()


def test_who_wants_more_is_killed():
    with memory_group_or_skip(60 * MIB) as group:
        greedy = [sys.executable, "-c", "bytearray(100 * 2**20)"]
        assert subprocess.run(group.command(*greedy), check=False).returncode == -9
        assert group.use().peak <= 60 * MIB


def test_one_whose_maker_is_gone_is_removed_by_the_next():
    with memory_group_or_skip(60 * MIB) as group:
        left = group.folder.with_name(f"p2pmoe-{2**22 + os.getpid()}-0")
        left.mkdir()
        with memory_group(60 * MIB):
            assert not left.exists()


def test_without_cgroups_it_is_told(monkeypatch):
    monkeypatch.setattr(cgroups, "_parents", list)
    with pytest.raises(NoGroups, match="the system has none"), memory_group(MIB):
        pass
