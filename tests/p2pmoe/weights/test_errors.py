from pathlib import Path

from p2pmoe.weights.errors import ModelFileError, UnsupportedModel


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
