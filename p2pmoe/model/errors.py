"""Errors of the model, leaves of `p2pmoe.errors`.

P2pmoeError
  ConfigurationError
    ModelRefused           a model file that cannot be run exactly as it was made
  RequestFailed
    CacheFull              more tokens than the sequence's KV cache was made for
    TokenRefused           a token id outside the vocabulary
    SamplingRefused        a sampling setting out of its range
  CombineRefused           expert results that are not what the routing asked for
"""

from p2pmoe.errors import ConfigurationError, P2pmoeError, RequestFailed

__all__ = [
    "CacheFull",
    "CombineRefused",
    "ModelRefused",
    "SamplingRefused",
    "TokenRefused",
]


class ModelRefused(ConfigurationError):
    """A model file that cannot be run exactly as it was made."""

    advice = "use a file of a supported architecture, converted without changes"


class CacheFull(RequestFailed):
    """The sequence would outgrow the KV cache that was admitted for it."""

    advice = "shorten the prompt or ask for fewer tokens"


class TokenRefused(RequestFailed):
    """A token id that the vocabulary does not have."""


class SamplingRefused(RequestFailed):
    """A sampling setting out of its range."""


class CombineRefused(P2pmoeError):
    """Expert results that are not, row for row, what the routing asked for."""
