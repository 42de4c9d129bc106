"""Errors of grammars, leaves of `p2pmoe.errors`.

P2pmoeError
  GrammarRefused       a schema that cannot be followed, or not within the limits
  RequestFailed
    ConstraintFailed   an answer's grammar grew too complex on the way
"""

from p2pmoe.errors import P2pmoeError, RequestFailed

__all__ = ["ConstraintFailed", "GrammarRefused"]


class GrammarRefused(P2pmoeError):
    """A schema is wrong, uses what is not supported, or is too complex."""


class ConstraintFailed(RequestFailed):
    """A grammar allows no token any more, or took too much to follow."""
