"""The file of the local page's token: its user's alone, the same over restarts."""

import os
import secrets
from pathlib import Path
from typing import Final

__all__ = ["PAGE_FILE", "page_token"]

PAGE_FILE: Final = "page.key"
_TOKEN_BYTES: Final = 24
_TOKEN_LENGTH: Final = 32  # of its text


def page_token(path: Path) -> str:
    """Return the token in a file, made anew if there is none that can be used.

    One that others may read is replaced.

    Raises:
        OSError: it cannot be written.
    """
    kept = _kept(path)
    if kept:
        return kept
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token


def _kept(path: Path) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, encoding="ascii", errors="replace") as file:
        is_private = not os.fstat(file.fileno()).st_mode & 0o077
        token = file.read(_TOKEN_LENGTH + 2).strip()
    is_token = len(token) == _TOKEN_LENGTH and token.isascii() and token.isprintable()
    return token if is_private and is_token else ""
