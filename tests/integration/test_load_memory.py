"""Loading a large model takes little memory: measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from tests.benchmarks.synthetic_moe import SyntheticMoe, write_moe

ROOT = Path(__file__).resolve().parents[2]
MB = 1_000_000


def loaded(path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.load_child", "ours", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_memory_is_taken_by_what_is_used(tmp_path: Path) -> None:
    moe = SyntheticMoe(format=Format.Q4_0, n_layer=4)  # 270 MB of experts
    path = write_moe(tmp_path / "moe.gguf", moe)
    size = path.stat().st_size
    assert size > 250 * MB
    found = loaded(path)
    assert found["loaded"] - found["before"] < 15 * MB
    assert found["loaded"] < 100 * MB
    # The dense part and the experts that four tokens chose, not the whole file.
    assert 50 * MB < found["first"] - found["loaded"] < size
