from pathlib import Path

from p2pmoe.cli.model_path import model_path
from tests.support.backbone_model import POCKET


def test_pocket_is_shipped_and_anything_else_is_a_path() -> None:
    assert model_path("pocket") == POCKET
    assert POCKET.is_file()
    assert model_path("x/pocket") == Path("x/pocket")
