"""What can be wrong with a network's files, as one small tree.

NetworkError(ConfigurationError)
  InviteBroken      an invite file is missing, malformed or made for something else
  FolderUnusable    the operator's folder cannot be read or written
  NetworkMissing    the folder holds no network's key
"""

from p2pmoe.errors import ConfigurationError

__all__ = ["FolderUnusable", "InviteBroken", "NetworkError", "NetworkMissing"]


class NetworkError(ConfigurationError):
    """Root of the errors of a network's files."""


class InviteBroken(NetworkError):
    """An invite file cannot be read or is no invite."""

    advice = "ask the network's operator for its invite.json, whole"


class FolderUnusable(NetworkError):
    """The operator's folder cannot be read or written."""

    advice = "name a folder that can be written with --data"


class NetworkMissing(NetworkError):
    """The folder holds no network's key."""

    advice = "make one with `p2pmoe network create`, or name its folder with --data"
