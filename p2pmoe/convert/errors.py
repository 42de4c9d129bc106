"""Errors of conversion, leaves of `p2pmoe.errors`.

P2pmoeError
  ConfigurationError
    FormatNotWritable      no quantiser here writes what was asked for
    TargetUnusable         the file to write exists, or cannot be written
  ConversionFailed         a tensor cannot be kept in the format that it should get
"""

from p2pmoe.errors import ConfigurationError, P2pmoeError

__all__ = ["ConversionFailed", "FormatNotWritable", "TargetUnusable"]


class FormatNotWritable(ConfigurationError):
    """A format that can be read but not written, or that is none."""


class TargetUnusable(ConfigurationError):
    """The file to write exists already, or cannot be written where it should be."""

    advice = "name another file"


class ConversionFailed(P2pmoeError):
    """A tensor holds what its new format cannot, or cannot be read as numbers."""

    advice = "keep that part as it is, or compare the file with its source"
