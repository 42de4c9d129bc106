from collections.abc import Callable
from pathlib import Path

import pytest

from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.metadata_keys import Keys
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import read_header
from tests.support.gguf_writer import write_gguf

Make = Callable[..., Keys]


@pytest.fixture
def keys(tmp_path: Path) -> Make:
    def make(**values: object) -> Keys:
        metadata = {f"x.{key}": value for key, value in values.items()}
        metadata |= {"general.architecture": "x"}
        return Keys(read_header(write_gguf(tmp_path / "m.gguf", metadata)))

    return make


def test_keys_go_without_their_prefix(keys: Make) -> None:
    own = keys(n=5)
    assert own.architecture == "x"
    assert own.has("n")
    assert not own.has("x.n")
    assert own.size("n") == 5
    assert own.size("m", 7) == 7
    with pytest.raises(ModelFileError, match=r"x\.m"):
        own.size("m")


def test_sizes_have_bounds(keys: Make) -> None:
    assert keys(n=1 << 16).size("n") == 1 << 16
    for wrong in (0, (1 << 16) + 1, 1.5, True, "1"):
        with pytest.raises(ModelFileError, match=r"x\.n"):
            keys(n=wrong).size("n")
    assert keys(n=0).size("n", low=0) == 0
    assert keys(n=1 << 20).size("n", high=1 << 20) == 1 << 20


def test_numbers_have_bounds(keys: Make) -> None:
    assert keys(r=0.5).real("r", low=0.0, high=1.0) == 0.5
    assert keys().real("r", 0.25, low=0.0, high=1.0) == 0.25
    with pytest.raises(ModelRefused, match=r"x\.r: 1\.5 is not in 0\.0\.\.1\.0"):
        keys(r=1.5).real("r", low=0.0, high=1.0)
    with pytest.raises(ModelFileError, match="not finite"):
        keys(r=float("nan")).real("r", low=0.0, high=1.0)


def test_a_cap_of_0_is_none(keys: Make) -> None:
    assert keys(cap=30.0).soft_cap("cap") == 30.0
    assert keys(cap=0.0).soft_cap("cap") is None
    assert keys().soft_cap("cap") is None
    with pytest.raises(ModelRefused, match="cap"):
        keys(cap=-1.0).soft_cap("cap")


def test_all_of_a_head_is_turned_unless_the_file_says(keys: Make) -> None:
    assert keys().rotated(64) == 64
    assert keys(**{"rope.dimension_count": 32}).rotated(64) == 32
    for wrong in (31, 66):
        with pytest.raises(ModelRefused, match=f"{wrong} of 64"):
            keys(**{"rope.dimension_count": wrong}).rotated(64)


def test_a_pattern_is_a_period_or_a_flag_a_layer(keys: Make) -> None:
    assert keys().pattern("p", 4, default=2) == (True, False, True, False)
    assert keys(p=3).pattern("p", 4, default=2) == (True, True, False, True)
    flags = [False, True, True, False]
    assert keys(p=flags).pattern("p", 4, default=2) == tuple(flags)
    with pytest.raises(ModelRefused, match="4 flags for 5 layers"):
        keys(p=flags).pattern("p", 5, default=2)
    with pytest.raises(ModelFileError, match=r"x\.p"):
        keys(p=0).pattern("p", 4, default=2)


def test_flags_are_booleans(keys: Make) -> None:
    assert keys(f=True).flag("f") is True
    assert keys().flag("f", default=False) is False
    with pytest.raises(ModelFileError, match=r"x\.f"):
        keys(f=1).flag("f")
