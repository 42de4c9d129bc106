"""The tree of an evaluation's errors: exit codes and advice."""

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.evaluate import errors


@pytest.mark.parametrize("name", [n for n in errors.__all__ if n != "EvaluationError"])
def test_each_error_has_its_code_and_most_have_advice(name):
    error = getattr(errors, name)("a line")
    assert error.exit_code == (1 if name == "MeasurementFailed" else 2)
    assert error.advice or name == "MeasurementFailed"
    is_input = isinstance(error, ConfigurationError)
    assert is_input == (name != "MeasurementFailed")
