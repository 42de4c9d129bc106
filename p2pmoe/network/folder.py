"""The operator's folder: every file that a network's services keep, by name.

    network.key        the network's own key                      secret
    network.descriptor its id and services, signed: all that a relay elsewhere needs
    relay.key          the relay's identity; relay-N.key a shard's  secret
    market.identity    the market's identity                       secret
    ledger.identity    the ledger's identity                       secret
    market.id, ledger.id   their public ids, readable while the identity is in use
    market.json        what the market remembers
    ledger/            the ledger's store
    invite.json        what members are given                      secret of the members
    invites.json       the terms of every invite, by which its token can be made again
    invites/           invite files for single members             secret of each
    revocations        tokens and peers that relays refuse, signed by the network key
    relays.map         the network's relays, signed by the network key
    acme/              account key and certificate by ACME         secret

The folder is made with mode 0700. Each service may also run by itself on a folder of
its own, which then holds only its files.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import platformdirs

from mobile_worker.session.identity import Identity, load_or_create
from p2pmoe.network.errors import FolderUnusable
from relay.errors import WeakKey
from relay.keys import PeerId, peer_id_from_hex

__all__ = [
    "OperatorFolder",
    "Service",
    "default_folder",
    "give_away",
    "locked",
    "read_bounded",
    "replace_file",
]


class Service(StrEnum):
    """The services of a network besides its relay."""

    MARKET = "market"
    LEDGER = "ledger"


class OperatorFolder:
    """Paths and identities in one folder, made if it is missing.

    Raises:
        FolderUnusable: it cannot be made, or is no folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise _unusable(path, exc) from exc

    @property
    def relay_key(self) -> Path:
        """The relay's key file."""
        return self.path / "relay.key"

    def shard_key(self, shard: int) -> Path:
        """Return the key file of a shard: in map and invites it is a relay itself."""
        return self.path / f"relay-{shard}.key"

    def shards(self) -> list[int]:
        """Return the numbers of the shards that have a key, in order."""
        numbers = (
            path.stem.removeprefix("relay-") for path in self.path.glob("relay-*.key")
        )
        return sorted(int(number) for number in numbers if number.isdecimal())

    @property
    def network_key(self) -> Path:
        """The network's key file."""
        return self.path / "network.key"

    @property
    def descriptor(self) -> Path:
        """The network's signed descriptor."""
        return self.path / "network.descriptor"

    @property
    def invite(self) -> Path:
        """The invite file."""
        return self.path / "invite.json"

    @property
    def invites(self) -> Path:
        """The terms of every invite."""
        return self.path / "invites.json"

    @property
    def invite_files(self) -> Path:
        """The folder of invite files for single members."""
        return self.path / "invites"

    @property
    def revocations(self) -> Path:
        """The signed list of what is revoked."""
        return self.path / "revocations"

    @property
    def relay_map(self) -> Path:
        """The signed relay map."""
        return self.path / "relays.map"

    @property
    def acme(self) -> Path:
        """The folder of the ACME account and its certificate."""
        return self.path / "acme"

    @property
    def market_memory(self) -> Path:
        """What the market remembers."""
        return self.path / "market.json"

    @property
    def blobs(self) -> Path:
        """The folder of shards that the relay hands out."""
        return self.path / "blobs"

    @property
    def ledger(self) -> Path:
        """The ledger's store."""
        return self.path / "ledger"

    def identity(self, service: Service) -> Identity:
        """Return the service's identity, locked for this process; made if needed.

        Raises:
            IdentityInUse: another process runs this service on this folder.
            IdentityError, FolderUnusable: a file cannot be read or written.
        """
        identity = load_or_create(self.path / f"{service}.identity")
        try:
            _keep(self._id_file(service), identity.peer_id.hex() + "\n")
        except FolderUnusable:
            identity.release()
            raise
        return identity

    def service_id(self, service: Service) -> PeerId:
        """Return the service's public id, making its identity if there is none.

        Raises:
            IdentityError, FolderUnusable: a file cannot be read or written.
        """
        path = self._id_file(service)
        try:
            if path.exists():
                return peer_id_from_hex(path.read_text(encoding="ascii").strip())
        except (OSError, UnicodeDecodeError, WeakKey) as exc:
            raise FolderUnusable(f"cannot read {path}: {exc}") from exc
        identity = self.identity(service)
        identity.release()
        return identity.peer_id

    def knows(self, service: Service) -> bool:
        """Tell whether the folder has the service's id, without making one."""
        return self._id_file(service).exists()

    def _id_file(self, service: Service) -> Path:
        return self.path / f"{service}.id"


def _keep(path: Path, text: str) -> None:
    """Have a file hold `text`: replaced whole, and only if it holds anything else."""
    draft = path.with_name(f"{path.name}.new")
    try:
        if path.exists() and path.read_bytes() == text.encode("ascii"):
            return
        try:
            draft.write_text(text, encoding="ascii")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as exc:
        raise _unusable(path, exc) from exc


@contextlib.contextmanager
def locked(folder: OperatorFolder) -> Iterator[None]:
    """Hold the folder's lock: what is read within is not changed by another process.

    For moments only: whoever comes second waits.

    Raises:
        FolderUnusable: it cannot be opened.
    """
    try:
        descriptor = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as exc:
        raise _unusable(folder.path, exc) from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_bounded(path: Path, max_bytes: int) -> bytes | None:
    """Return a file's bytes; None if there is none. Never waits: a pipe is refused.

    Raises:
        FolderUnusable: it cannot be read, is no regular file, or is larger.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            raw = file.read(max_bytes + 1) if is_file else b""
    except FileNotFoundError:
        return None
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise _unreadable(f"cannot read {path}: {reason}") from exc
    if not is_file:
        raise _unreadable(f"{path} is no regular file")
    if len(raw) > max_bytes:
        raise _unreadable(f"{path} is larger than {max_bytes} bytes")
    return raw


def replace_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file whole or not at all, on the disk when this returns.

    What root writes into a service's folder is the service's: see `give_away`.

    Raises:
        FolderUnusable: it cannot be written.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        try:
            draft.unlink(missing_ok=True)
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            give_away(draft)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as exc:
        raise _unusable(path, exc) from exc


def give_away(path: Path) -> None:
    """As root, let the owner of the folder own what we made in it.

    A service runs as a user of its own, its operator often as root: a file that only
    root can read would keep the service from starting.

    Raises:
        OSError: it cannot be done.
    """
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def default_folder() -> Path:
    """Return where a service keeps its files if it is not told: by the platform."""
    return Path(platformdirs.user_data_dir("p2pmoe", appauthor=False)) / "network"


def _open_at_once(path: str, flags: int) -> int:
    # A pipe that nobody writes to would stop a whole relay at its SIGHUP.
    return os.open(path, flags | os.O_NONBLOCK)


def _unreadable(message: str) -> FolderUnusable:
    advice = "put the right file there, readable for the user that runs this"
    return FolderUnusable(message, advice=advice)


def _unusable(path: Path, exc: OSError) -> FolderUnusable:
    reason = (exc.strerror or str(exc)).lower()
    return FolderUnusable(f"cannot use {path}: {reason}")
