from pathlib import Path

from p2pmoe.weights.errors import (
    ModelFileError,
    UnsupportedModel,
    another_file,
    listed,
)


def test_the_message_names_file_tensor_and_field() -> None:
    error = ModelFileError(Path("m.gguf"), "is odd", tensor="blk.0", field="offset")
    assert str(error) == "m.gguf, tensor 'blk.0', offset: is odd"
    assert (error.tensor, error.field, error.reason) == ("blk.0", "offset", "is odd")
    assert error.exit_code == 2
    assert error.advice


def test_a_long_tensor_name_is_cut() -> None:
    error = ModelFileError(Path("m"), "x", tensor="n" * 5000)
    assert len(str(error)) < 120


def test_unsupported_has_its_own_advice() -> None:
    assert UnsupportedModel(Path("m"), "x").advice != ModelFileError.advice


def test_advice_may_be_given_with_the_reason() -> None:
    assert ModelFileError(Path("m"), "x", advice="do y").advice == "do y"


def test_a_list_of_names_is_sorted_and_short() -> None:
    assert listed(["b", "a"]) == "a, b"
    assert listed(map(str, range(100, 140))).endswith("131 and 8 more")
    assert len(listed(["n" * 5000])) == 120


def test_a_pointer_to_a_model_is_told_from_other_files() -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"
    error = another_file(Path("m.gguf"), pointer[:36], "is no GGUF file", field="magic")
    assert "m.gguf: is a Git LFS pointer" in str(error)
    assert "git lfs pull" in str(error.advice)
    other = another_file(Path("m.gguf"), b"PK", "is no GGUF file", field="magic")
    assert str(other).startswith("m.gguf, magic: is no GGUF file")
