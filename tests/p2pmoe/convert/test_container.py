"""The front of a file: read back by this package's reader and by the gguf package."""

import math
from pathlib import Path

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.convert.container import ALIGNMENT, front_of_file, padded
from p2pmoe.convert.precision import PlannedTensor
from p2pmoe.weights.gguf import Tensor
from p2pmoe.weights.metadata import MetadataValue
from p2pmoe.weights.model_file import read_header

TENSOR = PlannedTensor(
    source=Tensor(
        name="blk.0.a.weight", format=Format.F32, shape=(3, 64), offset=0, n_bytes=768
    ),
    format=Format.Q4_0,
)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
NATURAL = st.integers(0, (1 << 64) - 1)
SINGLES = st.floats(width=32, allow_nan=False)
VALUES = st.one_of(
    NUMBERS,
    NATURAL,
    st.floats(allow_nan=False),
    st.booleans(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(NUMBERS, min_size=1).map(tuple),
    st.lists(NATURAL, min_size=1).map(tuple),
    st.lists(SINGLES, min_size=1).map(tuple),
    st.lists(st.booleans(), min_size=1).map(tuple),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))).map(tuple),
)


@given(value=VALUES)
def test_metadata_comes_back(
    value: MetadataValue, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "metadata.gguf"
    path.write_bytes(front_of_file({"a": value}, []))
    assert read_header(path).metadata["a"] == value


def test_types_are_those_that_other_readers_want(tmp_path: Path) -> None:
    metadata: dict[str, MetadataValue] = {
        "general.architecture": "x",
        "count": 7,
        "large": 1 << 40,
        "negative": -1,
        "real": 0.5,
        "precise": 0.1,
        "flag": True,
        "kinds": (1, 3),
        "scores": (0.5, -1.0),
        "empty": (),
    }
    path = tmp_path / "m.gguf"
    path.write_bytes(front_of_file(metadata, [TENSOR]) + bytes(padded(TENSOR.n_bytes)))
    reader = gguf.GGUFReader(path)
    types = {
        name: [kind.name for kind in field.types]
        for name, field in reader.fields.items()
    }
    assert types["count"] == ["UINT32"]
    assert types["large"] == ["UINT64"]
    assert types["negative"] == ["INT32"]
    assert types["real"] == ["FLOAT32"]
    assert types["precise"] == ["FLOAT64"]
    assert types["flag"] == ["BOOL"]
    assert types["kinds"] == ["ARRAY", "INT32"]
    assert types["scores"] == ["ARRAY", "FLOAT32"]
    (tensor,) = reader.tensors
    assert tensor.name == "blk.0.a.weight"
    assert list(tensor.shape) == [64, 3]
    assert tensor.n_bytes == TENSOR.n_bytes == 3 * 2 * 18


def test_tensors_lie_aligned(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    second = PlannedTensor(
        source=Tensor(name="b", format=Format.F32, shape=(8,), offset=0, n_bytes=32),
        format=Format.F32,
    )
    front = front_of_file({}, [TENSOR, second])
    path.write_bytes(front + bytes(padded(TENSOR.n_bytes) + 32))
    header = read_header(path)
    assert header.tensor("blk.0.a.weight").offset == len(front)
    assert header.tensor("b").offset == len(front) + 128
    assert len(front) % ALIGNMENT == 0


def test_infinities_stay_singles(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(front_of_file({"a": math.inf}, []))
    assert read_header(path).metadata["a"] == math.inf
