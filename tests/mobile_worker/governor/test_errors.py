"""Errors of limits are ours, with one line."""

from mobile_worker.errors import LocalError
from mobile_worker.governor import errors


def test_each_is_ours_and_in_the_docstring() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), LocalError)
        assert name in (errors.__doc__ or "")
