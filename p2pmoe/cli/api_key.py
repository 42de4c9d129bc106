"""Where the command line finds an API key: a file or the environment.

Never an option: the arguments of a process can be read by others.
"""

import os
from pathlib import Path

from p2pmoe.errors import P2pmoeError

__all__ = ["ApiKeyUnreadable", "read_api_key"]


class ApiKeyUnreadable(P2pmoeError):
    """The file named for the API key cannot be read."""

    advice = "name a readable text file, or set P2PMOE_API_KEY"


def read_api_key(key_file: str | None) -> str:
    """Return the key from `key_file`, else from P2PMOE_API_KEY, else an empty string.

    Raises:
        ApiKeyUnreadable: The file is missing, unreadable or not text.
    """
    if key_file is None:
        return os.environ.get("P2PMOE_API_KEY", "")
    try:
        return Path(key_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ApiKeyUnreadable(f"cannot read the API key in {key_file}") from error
