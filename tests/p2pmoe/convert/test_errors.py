"""Conversion's errors are inputs that can be put right: exit code 2, with advice."""

from p2pmoe.convert.errors import ConversionFailed, FormatNotWritable, TargetUnusable
from p2pmoe.errors import P2pmoeError


def test_they_are_for_people() -> None:
    for kind in (ConversionFailed, FormatNotWritable, TargetUnusable):
        error = kind("what")
        assert isinstance(error, P2pmoeError)
        assert error.exit_code == 2
    assert TargetUnusable("what").advice
    assert ConversionFailed("what").advice
