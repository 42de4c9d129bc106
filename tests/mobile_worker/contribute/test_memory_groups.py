"""The tightest cgroup above us counts, and cached files in it are free."""

import subprocess
import sys
from pathlib import Path

import pytest

from mobile_worker.contribute.memory_groups import V1, V2, free_in_groups
from tests.support.cgroups import memory_group_or_skip

MIB = 1 << 20


def groups_of(folder: Path, version: int, **free: int) -> tuple[Path, Path]:
    """Make groups a and a/b; return who we are and where they are."""
    membership, groups = folder / "cgroup", folder / "groups"
    limit, usage = V1 if version == 1 else V2
    root = groups / "memory" if version == 1 else groups
    for path, n in (("a", free["a"]), ("a/b", free["b"])):
        (root / path).mkdir(parents=True, exist_ok=True)
        (root / path / limit).write_text(f"{1000 + n}\n")
        (root / path / usage).write_text("1000\n")
    line = "9:memory,x:/a/b" if version == 1 else "0::/a/b"
    membership.write_text(f"3:cpu:/c\n{line}\n")
    return membership, groups


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_group_counts(tmp_path: Path, version: int) -> None:
    assert free_in_groups(*groups_of(tmp_path, version, a=100, b=500)) == 100
    assert free_in_groups(*groups_of(tmp_path, version, a=500, b=100)) == 100
    assert free_in_groups(*groups_of(tmp_path, version, a=-5, b=100)) == 0


@pytest.mark.parametrize(
    ("version", "stat", "cached"),
    [
        (1, "inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 4\n", 34),
        (2, "anon 7\nfile 50\ninactive_file 30\nactive_file 5\n", 35),
        (2, "nonsense\ninactive_file many\n", 0),
    ],
)
def test_cached_files_give_way(
    tmp_path: Path, version: int, stat: str, cached: int
) -> None:
    membership, groups = groups_of(tmp_path, version, a=9000, b=100)
    root = groups / "memory" if version == 1 else groups
    (root / "a/b/memory.stat").write_text(stat)
    assert free_in_groups(membership, groups) == 100 + cached


def test_without_groups_nothing_bounds(tmp_path: Path) -> None:
    assert free_in_groups(tmp_path / "none", tmp_path) is None
    odd = tmp_path / "cgroup"
    odd.write_text("nonsense\n1:memory:/../../etc\n0::/a\n")
    assert free_in_groups(odd, tmp_path) is None


def test_a_real_group_is_seen_from_within() -> None:
    program = (
        "from mobile_worker.contribute.machine import this_machine; "
        "print(this_machine().free_memory_bytes)"
    )
    with memory_group_or_skip(200 * MIB) as group:
        told = subprocess.run(
            group.command(sys.executable, "-c", program),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    assert 100 * MIB < int(told) < 200 * MIB
