"""Take invites back and shut peers out: the folder's signed list of revocations.

Each change raises the list's version by one and signs it anew. What is revoked stays so
even when its token has ended: the list is small, and a wrong clock brings nobody back.
"""

from collections.abc import Iterable

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import OperatorFolder, locked, read_bounded, replace_file
from p2pmoe.network.network import Network
from relay.errors import ProtocolError
from relay.keys import PeerId
from relay.revocations import (
    MAX_REVOCATIONS_BYTES,
    MAX_REVOKED,
    Revocations,
    parse_revocations,
    sign_revocations,
)

__all__ = ["read_revocations", "revoke"]


def read_revocations(folder: OperatorFolder, network: PeerId) -> Revocations:
    """Read what is revoked; no file is nothing.

    Raises:
        FolderUnusable: the file cannot be read, or is not this network's.
    """
    raw = read_bounded(folder.revocations, MAX_REVOCATIONS_BYTES)
    if raw is None:
        return Revocations()
    try:
        return parse_revocations(raw, network)
    except ProtocolError as exc:
        raise FolderUnusable(
            f"{folder.revocations}: {exc}",
            advice="restore the file that `p2pmoe network revoke` wrote last",
        ) from exc


def revoke(
    folder: OperatorFolder,
    network: Network,
    *,
    tokens: Iterable[bytes] = (),
    peers: Iterable[PeerId] = (),
) -> Revocations:
    """Add token hashes and peers to the list and write it; return the whole list.

    A list that holds them all already stays as it is.

    Raises:
        ConfigurationError: the list is full.
        FolderUnusable: the file cannot be read or written, or is not this network's.
    """
    with locked(folder):
        held = read_revocations(folder, network.network_id)
        all_tokens, all_peers = held.tokens | set(tokens), held.peers | set(peers)
        if (all_tokens, all_peers) == (held.tokens, held.peers):
            return held
        if max(len(all_tokens), len(all_peers)) > MAX_REVOKED:
            raise ConfigurationError(
                f"more than {MAX_REVOKED} are revoked",
                advice="found a new network and invite those who stay",
            )
        grown = Revocations(
            network=network.network_id,
            version=held.version + 1,
            tokens=all_tokens,
            peers=all_peers,
        )
        signed = sign_revocations(grown, network.sign)
        # Signed, and holding hashes alone, it is no secret: a relay elsewhere needs it.
        replace_file(folder.revocations, signed.encoded, mode=0o644)
        return signed
