"""`p2pmoe key export|import FILE`: a worker's key, for a backup or another machine.

The file is sealed under a passphrase, which is asked for on the terminal or read from a
file descriptor, and is never an argument or a variable. One key, one process: after a
key has moved, its old machine must not run it any more.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from p2pmoe.cli.asking_worker import Data, folder_of

__all__ = ["register"]

KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The sealed key.")]
Descriptor = Annotated[
    int | None,
    typer.Option(
        "--passphrase-fd",
        metavar="N",
        min=0,
        help="Read the passphrase's line from this file descriptor, not a terminal.",
    ),
]
_MAX_PASSPHRASE_BYTES = 1024


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="A worker's key: keep a copy, or move to another machine with it.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("export")(_export)
    group.command("import")(_import)
    app.add_typer(group, name="key")


def _export(file: KeyFile, data: Data = None, passphrase_fd: Descriptor = None) -> None:
    """Write the worker's key into a new file, sealed under a passphrase."""
    from mobile_worker.session.identity import read_to_sign
    from mobile_worker.session.sealed_key import seal_key
    from p2pmoe.cli.paper_files import write_new_file

    identity = read_to_sign(folder_of(data) / "identity")
    sealed = seal_key(identity, _passphrase(passphrase_fd, is_new=True))
    write_new_file(file, sealed.encode("ascii"))
    file.chmod(0o600)
    print(
        f"key of worker {identity.peer_id.hex()} written to {file}\n"
        "without the passphrase nobody can open it, you neither",
        file=sys.stderr,
    )


def _import(file: KeyFile, data: Data = None, passphrase_fd: Descriptor = None) -> None:
    """Take over a key that was exported; a folder that has another one is refused."""
    from mobile_worker.errors import IdentityError
    from mobile_worker.session.identity import read_to_sign, write_identity
    from mobile_worker.session.sealed_key import MAX_SEALED_BYTES, open_key
    from p2pmoe.cli.paper_files import read_bounded_file

    raw = read_bounded_file(file, MAX_SEALED_BYTES)
    path = folder_of(data) / "identity"
    sealed = raw.decode("ascii", "replace")
    identity = open_key(sealed, _passphrase(passphrase_fd, is_new=False))
    write_identity(path, identity)
    there = read_to_sign(path)
    if there.text() != identity.text():
        raise IdentityError(
            f"{path} is the key of another worker, {there.peer_id.hex()[:8]}",
            advice="name another folder with --data, or move that key away first",
        )
    print(f"this folder's worker is {identity.peer_id.hex()}", file=sys.stderr)


def _passphrase(descriptor: int | None, *, is_new: bool) -> str:
    from p2pmoe.errors import ConfigurationError

    if descriptor is not None:
        return _read(descriptor)
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "there is no terminal to ask for the passphrase",
            advice="hand it over with --passphrase-fd 3 3< FILE",
        )
    import getpass

    passphrase = getpass.getpass("passphrase: ")
    if is_new and getpass.getpass("again: ") != passphrase:
        raise ConfigurationError("the two passphrases differ", advice="try again")
    return passphrase


def _read(descriptor: int) -> str:
    import os

    from p2pmoe.errors import ConfigurationError

    try:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            line = file.readline(_MAX_PASSPHRASE_BYTES + 1)
        if len(line) > _MAX_PASSPHRASE_BYTES:
            raise ConfigurationError("the passphrase is longer than 1024 bytes")
        return line.decode("utf-8").rstrip("\r\n")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigurationError(
            f"--passphrase-fd {descriptor} cannot be read: {why}",
            advice="open it in the shell: --passphrase-fd 3 3< FILE",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError("the passphrase is no UTF-8 text") from error
