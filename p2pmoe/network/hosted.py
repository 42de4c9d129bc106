"""The network that a relay serves: with its key, or by its public descriptor alone.

The operator's own host has `network.key` and can sign. Any other relay host needs no
secret of the network: `network.descriptor`, which every start with the key writes
anew, tells the network's id and services, and is signed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mobile_worker.errors import RecordError
from mobile_worker.session.descriptor import NetworkDescriptor, parse_descriptor
from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import (
    OperatorFolder,
    Service,
    read_bounded,
    replace_file,
)
from p2pmoe.network.network import Network
from relay.keys import PeerId

__all__ = ["HostedNetwork", "hosted_network"]

_MAX_DESCRIPTOR_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedNetwork:
    """A network to be served. `signer`: its key, None where there is only its word."""

    descriptor: NetworkDescriptor
    signer: Network | None

    @property
    def network_id(self) -> PeerId:
        """The network's public key."""
        return self.descriptor.network


def hosted_network(
    folder: OperatorFolder, market: PeerId | None, ledger: PeerId | None, *, only: bool
) -> HostedNetwork:
    """Return the folder's network, made anew where the folder has neither file.

    market, ledger: who serves it, in place of the folder's own identities.

    Raises:
        KeyFileError, IdentityError, FolderUnusable: a file cannot be used.
        ConfigurationError: what only the network's key can do is asked of a descriptor.
    """
    path = folder.descriptor
    if path.exists() and not folder.network_key.exists():
        return _by_descriptor(path, asked=not only or bool(market or ledger))
    network = Network.load_or_create(folder.network_key)
    descriptor = network.descriptor(
        market or folder.service_id(Service.MARKET),
        ledger or folder.service_id(Service.LEDGER),
    )
    if not path.exists() or path.read_bytes() != descriptor.encoded:
        replace_file(path, descriptor.encoded, mode=0o644)
    return HostedNetwork(descriptor=descriptor, signer=network)


def _by_descriptor(path: Path, *, asked: bool) -> HostedNetwork:
    if asked:
        raise ConfigurationError(
            f"{path.parent} has the network's descriptor and not its key",
            advice="run the relay with --only and without --market and --ledger, "
            "or name another folder with --data",
        )
    try:
        descriptor = parse_descriptor(read_bounded(path, _MAX_DESCRIPTOR_BYTES) or b"")
    except RecordError as exc:
        raise FolderUnusable(
            f"{path}: {exc}", advice="copy it anew from the operator's folder"
        ) from exc
    return HostedNetwork(descriptor=descriptor, signer=None)
