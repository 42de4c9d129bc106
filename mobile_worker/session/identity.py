"""Who this process is: an Ed25519 key that signs and an X25519 key for sessions.

Both lie in one file of mode 0600, three lines of text:

    p2pmoe identity v1
    ed25519 <64 hex digits of the seed>
    x25519 <64 hex digits of the private key>

The file is written whole or not at all, and locked while a process uses it: two
processes with one key would take each other's messages. Whatever is wrong with the
file is an `IdentityError` of one line.
"""

import fcntl
import os
import stat
import weakref
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mobile_worker.errors import IdentityError, IdentityInUse
from relay.keys import PeerId, SigningKey

__all__ = [
    "Identity",
    "is_in_use",
    "load_or_create",
    "parse_identity",
    "read_to_sign",
    "write_identity",
]

_HEADING = "p2pmoe identity v1"
_MAX_FILE_BYTES = 1024


class Identity:
    """The two key pairs of one peer. Nothing of it is ever printed but the peer id."""

    __slots__ = ("__weakref__", "_release", "_signing_key", "static")

    def __init__(self, signing_key: SigningKey, static: X25519PrivateKey) -> None:
        self._signing_key = signing_key
        self.static = static
        self._release: weakref.finalize[[int], Identity] | None = None

    @classmethod
    def generate(cls) -> Self:
        """Make a new identity that lives in memory only."""
        return cls(SigningKey.generate(), X25519PrivateKey.generate())

    @classmethod
    def from_seeds(cls, signing_seed: bytes, static_seed: bytes) -> Self:
        """Build the identity of two 32-byte secrets."""
        static = X25519PrivateKey.from_private_bytes(static_seed)
        return cls(SigningKey.from_seed(signing_seed), static)

    @property
    def peer_id(self) -> PeerId:
        """The public Ed25519 key: what others call us."""
        return self._signing_key.peer_id

    @property
    def static_key(self) -> bytes:
        """The public X25519 key, 32 bytes."""
        return self.static.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte Ed25519 signature of `message`."""
        return self._signing_key.sign(message)

    def hold(self, descriptor: int) -> None:
        """Keep a locked file open until `release` or the end of this object."""
        self._release = weakref.finalize(self, os.close, descriptor)

    def release(self) -> None:
        """Give the key file free for other processes."""
        if self._release is not None:
            self._release()

    def text(self) -> str:
        """Return the content of the key file: secret."""
        signing, static = self._signing_key.seed, self.static.private_bytes_raw()
        return f"{_HEADING}\ned25519 {signing.hex()}\nx25519 {static.hex()}\n"

    def __repr__(self) -> str:
        return f"Identity({self.peer_id[:4].hex()})"


def load_or_create(path: Path) -> Identity:
    """Read and lock the identity file, making it first if there is none.

    Raises:
        IdentityInUse: another process, or another part of this one, holds it.
        IdentityError: it cannot be read, written or trusted.
    """
    if not path.exists():
        _create(path, Identity.generate().text())
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise IdentityError(
            f"cannot read identity file {path}: {_reason(error)}",
            advice="Give another --identity or correct the file's owner",
        ) from error
    try:
        identity = _parse(path, _read_locked(path, descriptor))
    except IdentityError:
        os.close(descriptor)
        raise
    identity.hold(descriptor)
    return identity


def read_to_sign(path: Path) -> Identity:
    """Read an identity file, whoever holds it: to sign papers, never to join with.

    Raises:
        IdentityError: there is none, or it cannot be read or trusted.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise IdentityError(
            f"cannot read identity file {path}: {_reason(error)}",
            advice="Name the folder of the worker or backbone with --data",
        ) from error
    try:
        return _parse(path, _read(path, descriptor))
    finally:
        os.close(descriptor)


def is_in_use(path: Path) -> bool:
    """Return whether a process holds the key file; one that is not there is free."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def write_identity(path: Path, identity: Identity) -> None:
    """Write a key file where there is none; if there is one, leave it as it is.

    Raises:
        IdentityError: it cannot be written.
    """
    _create(path, identity.text())


def parse_identity(text: str, name: str) -> Identity:
    """Return the identity that a key file's text holds; `name` says what it is of.

    Raises:
        IdentityError: it is damaged.
    """
    return _parse(name, text)


def _create(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)  # a link, not a rename: the first writer wins
        except FileExistsError:
            return
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise IdentityError(
            f"cannot write identity file {path}: {_reason(error)}",
            advice="Make the folder writable or name another file",
        ) from error


def _read_locked(path: Path, descriptor: int) -> str:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise IdentityInUse(
            f"identity file {path} is in use by another process",
            advice="stop that one, or give this one another folder with --data",
        ) from error
    return _read(path, descriptor)


def _read(path: Path, descriptor: int) -> str:
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode & 0o077:
        raise IdentityError(
            f"identity file {path} can be read by others (mode {mode:04o})",
            advice=f"Run: chmod 600 {path}",
        )
    try:
        return os.read(descriptor, _MAX_FILE_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise IdentityError(
            f"cannot read identity file {path}: {_reason(error)}"
        ) from error


def _parse(name: Path | str, text: str) -> Identity:
    lines = text.splitlines()
    seeds = {}
    for line in lines[1:]:
        name, _, digits = line.partition(" ")
        try:
            seeds[name] = bytes.fromhex(digits)
        except ValueError:
            seeds[name] = b""
    if (
        lines[:1] != [_HEADING]
        or sorted(seeds) != ["ed25519", "x25519"]
        or {len(seed) for seed in seeds.values()} != {32}
    ):
        raise IdentityError(
            f"identity file {name} is damaged",
            advice="Restore it from a backup, or move it away to get a new identity",
        )
    return Identity.from_seeds(seeds["ed25519"], seeds["x25519"])


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
