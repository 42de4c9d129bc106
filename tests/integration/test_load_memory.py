"""Loading a large model takes little memory: measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.backbone.local_side import SMALL_BYTES
from p2pmoe.weights.model_file import open_model
from tests.benchmarks.synthetic_moe import SyntheticMoe, write_moe
from tests.support.command_line import assert_one_error, run_all

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


def test_damage_in_a_large_model_ends_serve_though_nobody_asks(tmp_path: Path) -> None:
    """It is ready by then; the look through the file finds it."""
    moe = SyntheticMoe(format=Format.Q4_0, n_layer=2, n_embd=1024, n_heads=8)
    path = write_moe(tmp_path / "damaged.gguf", moe)
    assert moe.n_bytes > SMALL_BYTES
    with open_model(path) as model_file:
        offset = model_file.tensor("blk.1.ffn_down_exps.weight").offset
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\0\x7c")
    data = str(tmp_path / "data")
    words = ("serve", str(path), "--listen", "127.0.0.1:0", "--data", data)
    outcome = run_all({"serve": words})["serve"]
    assert_one_error(outcome, "damaged.gguf", "down of expert 1.0: row 0 of a")
    assert "ready, without a network" in outcome.err
