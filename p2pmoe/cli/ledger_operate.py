"""Run a ledger's operation from a command: in the running ledger, or without it.

A running ledger holds its folder's lock and is asked through its control socket. If
none runs, the command opens the store, as the user whose folder it is, does it, and
closes it again. Both take the same way from there, and nothing is done twice.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from p2pmoe.cli.ledger_folder import open_reader

if TYPE_CHECKING:
    from ledger.store import Store
    from mobile_worker.session.identity import Identity

__all__ = ["KeyAtHand", "operate", "operating"]

Ask = Callable[[str, Mapping[str, object]], Mapping[str, Any]]

_N_TRIES = 12
_PAUSE_S = 0.25  # for one that is just starting or ending
_WAIT_S = 300.0  # for an operation


def operate(
    data: Path | None, name: str, params: Mapping[str, object]
) -> Mapping[str, Any]:
    """Return what an operation of `ledger.operations` answers.

    Args:
        data: the operator's folder or the ledger's own; None is the default one.
        name: of the operation.
        params: JSON-able; see the operation.

    Raises:
        NoLedger: there is no ledger.
        FolderInUse: another process holds the folder and does not answer.
        LedgerError: the operation refused.
    """
    from p2pmoe.cli.waiting import Waiting

    with operating(data) as ask, Waiting(f"ledger: {name}"):
        return ask(name, params)


@contextlib.contextmanager
def operating(data: Path | None) -> Iterator[Ask]:
    """Yield what runs operations: several of them, one after the other.

    Where no ledger runs, the folder stays open until the end, and none can start.

    Raises:
        NoLedger, FolderInUse: as `operate`.
    """
    from p2pmoe.ledgerd.control_client import ask_control

    folder = open_reader(data).folder.path
    with contextlib.ExitStack() as stack:
        store = _reached(folder, stack)
        if store is None:
            yield lambda name, params: ask_control(folder, name, params, wait_s=_WAIT_S)
        else:
            yield lambda name, params: store.operate(name, params).result()


def _reached(folder: Path, stack: contextlib.ExitStack) -> "Store | None":
    """Return the store, opened on the stack, or None if a running ledger answers."""
    from ledger.errors import FolderInUse
    from p2pmoe.ledgerd.control_client import Unreachable, ask_control

    trouble: Unreachable | None = None
    for attempt in range(_N_TRIES):
        if attempt:
            time.sleep(_PAUSE_S)
        try:
            ask_control(folder, "ping", {}, wait_s=_WAIT_S)
        except Unreachable as exc:
            trouble = exc
        else:
            return None
        with contextlib.suppress(FolderInUse):
            return stack.enter_context(_own_store(folder))
    raise FolderInUse(
        f"another process writes {folder} and does not answer: {trouble}"
    ) from trouble


@contextlib.contextmanager
def _own_store(folder: Path) -> Iterator["Store"]:
    from ledger.database import Reader
    from ledger.store import Store
    from mobile_worker.clock import SystemClock

    owner = Reader(folder).identity
    with _as_owner_of(folder), contextlib.ExitStack() as stack:
        key = stack.enter_context(
            KeyAtHand(folder.resolve().parent / "ledger.identity", owner.ledger)
        )
        store = Store(folder, owner, sign=key.sign, wall_us=SystemClock().wall_us)
        yield stack.enter_context(store)


class KeyAtHand:
    """The ledger's key, read and locked at the first signature that needs it."""

    def __init__(self, path: Path, expected: bytes) -> None:
        """Remember where the identity file lies and whose it must be."""
        self._path = path
        self._expected = expected
        self._identity: Identity | None = None

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the identity file."""
        if self._identity is not None:
            self._identity.release()

    def sign(self, message: bytes) -> bytes:
        """Return the ledger's signature over `message`.

        Raises:
            StoreUnavailable: no identity file, one that cannot be used, or another's.
        """
        if self._identity is None:
            self._identity = self._load()
        return self._identity.sign(message)

    def _load(self) -> "Identity":
        from mobile_worker.errors import WorkerError
        from mobile_worker.session.identity import load_or_create

        if not self._path.exists():
            raise _no_key(f"there is no {self._path}, so nothing can be signed")
        try:
            identity = load_or_create(self._path)
        except WorkerError as exc:
            raise _no_key(str(exc), exc.advice) from exc
        if identity.peer_id != self._expected:
            identity.release()
            ours = self._expected[:4].hex()
            raise _no_key(f"{self._path} is not the key of this ledger, {ours}")
        return identity


def _no_key(
    message: str, advice: str = "Name the operator's folder with --data."
) -> Exception:
    # The ledger's own kind: it is raised on the writer's thread.
    from ledger.errors import StoreUnavailable

    error = StoreUnavailable(message)
    error.advice = advice
    return error


@contextlib.contextmanager
def _as_owner_of(
    folder: Path,
    set_user: Callable[[int], None] = os.seteuid,
    set_group: Callable[[int], None] = os.setegid,
) -> Iterator[None]:
    """As root, be the folder's owner: it must stay able to read what is written."""
    owner = folder.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    group = os.getegid()
    set_group(owner.st_gid)
    set_user(owner.st_uid)
    try:
        yield
    finally:
        set_user(0)
        set_group(group)
