"""Papers that people hand about, as files: claims, answers, proofs, receipts, notes.

They are read whole, up to the length that their kind may have, and never written over
a file that is there.
"""

from pathlib import Path

from p2pmoe.errors import ConfigurationError

__all__ = ["read_bounded_file", "read_paper", "write_new_file"]


def read_bounded_file(path: Path, max_bytes: int) -> bytes:
    """Return a file's bytes.

    Raises:
        ConfigurationError: it cannot be read, or is longer than `max_bytes`.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
    except OSError as exc:
        raise ConfigurationError(f"{path}: {_why(exc)}") from exc
    if len(raw) > max_bytes:
        raise ConfigurationError(f"{path} has more than {max_bytes} bytes")
    return raw


def read_paper(path: Path) -> tuple[bytes, bytes]:
    """Return a paper's bytes and its signature.

    Raises:
        ConfigurationError: the file cannot be read.
        FormatRefused: it is no paper.
    """
    from ledger.dispute_papers import MAX_PAPER_BYTES, split_paper

    return split_paper(read_bounded_file(path, MAX_PAPER_BYTES))


def write_new_file(path: Path, raw: bytes) -> None:
    """Write a file that is not there yet.

    Raises:
        ConfigurationError: it is there, or cannot be written.
    """
    try:
        with path.open("xb") as file:
            file.write(raw)
    except OSError as exc:
        raise ConfigurationError(
            f"cannot write {path}: {_why(exc)}", advice="name another file"
        ) from exc


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
