"""`p2pmoe demo`: its options; the whole of it runs in tests/integration."""

import json
import sys

import pytest
from typer.testing import CliRunner

from mobile_worker.arithmetic.errors import KernelUnavailable
from p2pmoe.cli.main import build_app
from tests.support.demo_facts import GOOD_FACTS


def test_json_is_one_object_and_the_exit_code_tells(monkeypatch, tmp_path):
    seen = []

    async def play(folder, script, screen):
        seen.append((folder, script))
        screen.piece("text")
        return GOOD_FACTS

    monkeypatch.setattr("p2pmoe.demo.story.play", play)
    folder = tmp_path / "kept"
    result = CliRunner().invoke(
        build_app(), ["demo", "--json", "--keep", str(folder), "--seed", "3"]
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout)["identical_to_single_process"] is True
    assert seen[0][0] == folder
    assert seen[0][1].seed == 3


def test_a_wrong_kernel_is_told_before_anything_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("P2PMOE_KERNEL", "abacus")
    monkeypatch.setattr("p2pmoe.demo.story.play", None)
    folder = tmp_path / "kept"
    result = CliRunner().invoke(build_app(), ["demo", "--keep", str(folder)])
    assert isinstance(result.exception, KernelUnavailable)
    assert result.exception.exit_code == 2
    assert not folder.exists()


@pytest.mark.parametrize("wanted", ["", "numpy"])
def test_a_native_kernel_that_was_not_built_is_said(monkeypatch, wanted):
    async def play(folder, script, screen):
        return GOOD_FACTS

    monkeypatch.setattr("p2pmoe.demo.story.play", play)
    monkeypatch.setenv("P2PMOE_KERNEL", wanted)
    monkeypatch.setitem(sys.modules, "mobile_worker.arithmetic.native._kernel", None)
    result = CliRunner().invoke(build_app(), ["demo", "--json"])
    assert ("native kernel was not built" in result.stderr) is (not wanted)


def test_an_option_out_of_range_is_refused():
    assert CliRunner().invoke(build_app(), ["demo", "--max-tokens", "1"]).exit_code == 2
