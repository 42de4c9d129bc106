"""`--ca FILE` of every command that joins a network: authorities besides the system's.

For a relay, or a proxy that inspects TLS, whose certificate a private authority signs.
The option is handed on as P2PMOE_CA_FILE, which `relay.dial` reads, so that it holds
for every relay that the process will ever dial; the variable alone does the same.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["CaFile", "use_authorities"]

CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="Authorities (PEM) that may sign a relay's certificate, besides the "
        "system's; else P2PMOE_CA_FILE.",
    ),
]


def use_authorities(
    ca_file: Path | None, environment: MutableMapping[str, str] = os.environ
) -> Path | None:
    """Let relays be vouched for by this file too; return the one that holds.

    Raises:
        CertificateError: the file, by option or by variable, holds no authority.
    """
    from relay.dial import CA_VARIABLE
    from relay.tls import client_context

    if ca_file is not None:
        environment[CA_VARIABLE] = str(ca_file)
    named = environment.get(CA_VARIABLE)
    if not named:
        return None
    client_context(Path(named))
    return Path(named)
