import pytest

from mobile_worker.arithmetic import errors
from mobile_worker.errors import LocalError


@pytest.mark.parametrize(
    "name", [name for name in errors.__all__ if name != "ArithmeticRefused"]
)
def test_all_are_in_the_packages_tree(name: str) -> None:
    error = getattr(errors, name)("message")
    assert isinstance(error, errors.ArithmeticRefused)
    assert isinstance(error, LocalError)
    assert error.exit_code == 2
    assert str(error) == "message"


def test_advice_is_the_classes_own() -> None:
    assert "Q4_0" in errors.FormatUnsupported("x").advice
