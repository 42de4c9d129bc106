"""Free memory is what the tightest of machine and cgroups leaves."""

from pathlib import Path

import pytest

from mobile_worker.contribute import memory_groups
from p2pmoe.backbone import free_memory as module
from p2pmoe.backbone.free_memory import free_memory, resident_bytes


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_group_above_us_counts(tmp_path: Path, version: int) -> None:
    membership, groups = tmp_path / "cgroup", tmp_path / "groups"
    limit, usage = memory_groups.V1 if version == 1 else memory_groups.V2
    root = groups / "memory" if version == 1 else groups
    for path, free in (("", 900), ("a", 100), ("a/b", 500)):
        (root / path).mkdir(parents=True, exist_ok=True)
        (root / path / limit).write_text(f"{1000 + free}\n")
        (root / path / usage).write_text("1000\n")
    line = "9:memory,x:/a/b" if version == 1 else "0::/a/b"
    membership.write_text(f"3:cpu:/c\n{line}\n")
    assert free_memory(membership, groups) == 100
    (root / "a" / limit).write_text("max\n")
    assert free_memory(membership, groups) == 500
    (root / "a" / limit).write_text("900\n")
    assert free_memory(membership, groups) == 0


def test_without_groups_the_machine_counts(tmp_path: Path) -> None:
    free = free_memory(tmp_path / "none", tmp_path)
    assert free is None or free > 1 << 20
    odd = tmp_path / "cgroup"
    odd.write_text("nonsense\n1:memory:/../../etc\n")
    assert free_memory(odd, tmp_path) is None or free_memory(odd, tmp_path) > 1 << 20


def test_resident_memory_is_in_bytes(tmp_path: Path) -> None:
    own = resident_bytes()
    assert own is None or own > 10 << 20
    statm = tmp_path / "statm"
    statm.write_text("100 7 3\n")
    assert resident_bytes(statm) == 7 * module._PAGE
    statm.write_text("")
    assert resident_bytes(statm) is None
