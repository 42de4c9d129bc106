"""Each architecture against transformers' reference: GGUF, safetensors, scattered.

The one oracle: a scattered run gives the bytes of a single process, in any profile.
Here two workers in memory hold all routed experts, computing with numpy, the backbone
none; tests/integration/test_models_check.py has them as processes.
"""

import functools
from pathlib import Path

import pytest
import trio
from typer.testing import CliRunner

from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.check.check import CheckOptions, check_model
from p2pmoe.check.comparison import Produced, compare
from p2pmoe.check.reference import Reference, read_reference
from p2pmoe.check.scattered_run import ScatteredRun
from p2pmoe.cli.main import build_app
from tests.support.scattered_checks import locally_produced, scattered_produced
from tests.support.shared import shared_path
from tests.support.tiny_folders import TINY_FOLDERS
from tests.support.trio_test import trio_test

TOLERANCE = 2e-4
LAYOUTS = {"gguf": "model-f32.gguf", "safetensors": ""}
REFERENCES = [
    *((folder, "reference.npz") for folder in TINY_FOLDERS),
    ("minimax_m3", "reference_short.npz"),
]
SCATTERED_PROFILES = (Profile.R32, Profile.R16)


def model_path(folder: str, layout: str) -> Path:
    return shared_path(f"models/tiny/{folder}/{LAYOUTS[layout]}")


def stored(folder: str, name: str = "reference.npz") -> Reference:
    return read_reference(shared_path(f"models/tiny/{folder}/{name}"))


@functools.cache
def alone(folder: str, profile: Profile) -> Produced:
    """Return what a single process gives, from the GGUF file."""
    return locally_produced(model_path(folder, "gguf"), stored(folder), profile)


def assert_both_served(run: ScatteredRun) -> None:
    assert run.n_calls_here == 0
    assert len(run.calls) == 2
    assert all(n > 0 for n in run.calls.values()), run.calls


def test_every_folder_is_tried():
    here = {path.name for path in shared_path("models/tiny").iterdir()}
    assert here == set(TINY_FOLDERS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("folder", "name"), REFERENCES)
def test_a_local_run_meets_the_reference(folder, name, layout):
    options = CheckOptions(
        model=model_path(folder, layout),
        reference=shared_path(f"models/tiny/{folder}/{name}"),
    )
    found = check_model(options).comparison
    assert found.max_abs_error <= TOLERANCE
    assert found.n_greedy_equal == found.n_greedy > 0


@pytest.mark.parametrize("profile", SCATTERED_PROFILES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("folder", TINY_FOLDERS)
@trio_test
async def test_a_scattered_run_gives_the_same_bytes(tmp_path, folder, layout, profile):
    path, reference = model_path(folder, layout), stored(folder)
    run = await scattered_produced(tmp_path, path, reference, profile)
    expected = alone(folder, profile)
    assert run.produced.greedy == expected.greedy
    assert run.produced.logits.tobytes() == expected.logits.tobytes()
    assert_both_served(run)
    if profile is Profile.R32:
        assert compare(reference, run.produced).holds(TOLERANCE)


CONVERTED = [
    *((folder, "Q4_0") for folder in TINY_FOLDERS),
    ("gpt_oss", "MXFP4"),
    ("mixtral", "BF16"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "experts"), CONVERTED)
def test_a_converted_model_gives_the_same_bytes_scattered(tmp_path, folder, experts):
    """As it is served: experts of few bits, results coded; from a folder."""
    out = tmp_path / "converted.gguf"
    source = str(model_path(folder, "safetensors"))
    arguments = ["convert", source, str(out), "--experts", experts]
    done = CliRunner().invoke(build_app(), arguments)
    assert done.exit_code == 0, done.stderr
    reference = stored(folder)
    expected = locally_produced(out, reference, Profile.R16)

    async def scattered() -> ScatteredRun:
        return await scattered_produced(tmp_path, out, reference, Profile.R16)

    run = trio.run(scattered)
    assert run.produced.greedy == expected.greedy
    assert run.produced.logits.tobytes() == expected.logits.tobytes()
    assert_both_served(run)
    assert not compare(reference, run.produced).holds(TOLERANCE)  # another model
