"""Each role has a folder of its own; runs lie where `serve` looks for them."""

from pathlib import Path

import pytest

from p2pmoe.cli.data_folders import backbone_folder, evaluations_folder, worker_folder


def test_each_role_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path))
    assert backbone_folder() == tmp_path / "backbone"
    assert worker_folder() == tmp_path / "worker"


def test_runs_lie_in_the_backbones_folder() -> None:
    assert evaluations_folder() == backbone_folder() / "evaluations"
