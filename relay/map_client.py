"""Fetch the relay map: one bounded GET over the same way that leads to the relay.

Nothing that the server says is believed but the map's own signature, so the certificate
is checked as for any connection to a relay, but it need not be right.
"""

from typing import Final

from relay.client import ClientSettings
from relay.endpoint import Endpoint
from relay.errors import ProtocolError
from relay.fetching import Asked, fetch_page
from relay.keys import PeerId
from relay.relay_map import MAX_MAP_BYTES, RelayMap, parse_map

__all__ = ["MAP_PATH", "fetch_map"]

MAP_PATH: Final = "/map"
_NOT_FOUND: Final = 404
_OK: Final = 200


async def fetch_map(
    endpoint: Endpoint, network: PeerId, settings: ClientSettings | None = None
) -> RelayMap | None:
    """Return the map that the relay hands out; None if it has none.

    `settings`: the relay is dialled as a connection with these would be.

    Raises:
        RelayError: the relay cannot be reached, as `relay.dial.dial` says, or hands out
            no map of this network (ProtocolError).
    """
    asked = Asked(path=MAP_PATH, name="map", max_bytes=MAX_MAP_BYTES)
    answer = await fetch_page(endpoint, asked, settings)
    if answer.status == _NOT_FOUND:
        return None
    if answer.status != _OK:
        raise ProtocolError(f"relay map: HTTP status {answer.status}")
    return parse_map(answer.body, network)
