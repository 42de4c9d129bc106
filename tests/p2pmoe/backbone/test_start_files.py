"""What is wrong with files and folders is told before anything runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from p2pmoe.backbone.start_files import make_folder, open_configured_model
from p2pmoe.config import DiskPolicy, NetworkAccess, ServeConfig
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.errors import ModelFileError
from relay.endpoint import parse_endpoint
from tests.support.backbone_model import POCKET

RELAY = NetworkAccess(endpoint=parse_endpoint("wss://127.0.0.1:1/relay"))


def test_a_folder_is_made_and_can_be_written(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigurationError, match="cannot use the data folder"):
        make_folder(tmp_path / "file" / "b")


def test_a_model_is_opened_and_its_header_checked(tmp_path: Path) -> None:
    config = ServeConfig(model=POCKET, data=tmp_path)
    opened = open_configured_model(config)
    assert opened is not None
    assert opened.path == POCKET
    with pytest.raises(ModelFileError):
        open_configured_model(replace(config, model=tmp_path / "none.gguf"))


def test_a_model_that_a_manifest_names_is_not_opened_here(tmp_path: Path) -> None:
    config = ServeConfig(
        model=tmp_path,
        data=tmp_path,
        manifest="https://models.example/pocket.manifest",
        access=RELAY,
        disk=DiskPolicy.OFF,
    )
    assert open_configured_model(config) is None
    with pytest.raises(ConfigurationError):
        open_configured_model(replace(config, manifest="no address"))
