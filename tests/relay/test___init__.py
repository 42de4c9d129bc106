"""The relay's front door: every name is there, and the heavy ones come when named."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import relay


@pytest.mark.parametrize("name", relay.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(relay, name) is not None


def test_an_unknown_name_is_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Teapot'"):
        _ = relay.Teapot


def test_what_comes_later_is_what_the_type_checker_sees() -> None:
    tree = ast.parse(Path(relay.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == relay._LATER


def test_the_door_alone_loads_no_event_loop() -> None:
    program = "import sys, relay; print({'trio', 'ssl', 'websockets'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
