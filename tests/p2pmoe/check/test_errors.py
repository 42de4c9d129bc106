"""A refused reference names its file and says what one looks like."""

from pathlib import Path

from p2pmoe.check.errors import ReferenceRefused
from p2pmoe.errors import ConfigurationError


def test_a_refusal_is_a_line_with_the_file_and_advice():
    error = ReferenceRefused(Path("there.npz"), "is no .npz file")
    assert isinstance(error, ConfigurationError)
    assert str(error) == "there.npz: is no .npz file"
    assert error.exit_code == 2
    assert "prompt, rows, logits" in error.advice
