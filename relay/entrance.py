"""One connection's dealings with the gate, from its acceptance until it is through."""

from collections.abc import Callable

import trio

from relay.gate import AddressGate, Pass
from relay.keys import PeerId

__all__ = ["Entrance"]


class Entrance:
    """What the gate gave a connection, and when it is given back.

    `remote`: the address it comes from. `is_front`: a front's, which says whose it is.
    `on_leave` is called once, with this, when it is no handshake in flight any more.
    `scope`: cancelled, it ends the handshake. `since`: when it came.
    """

    __slots__ = (
        "_admitted",
        "_gate",
        "_left",
        "_on_leave",
        "is_front",
        "remote",
        "scope",
        "since",
    )

    def __init__(
        self,
        *,
        gate: AddressGate,
        admitted: Pass,
        remote: str,
        is_front: bool,
        on_leave: Callable[["Entrance"], object],
    ) -> None:
        self._gate = gate
        self._admitted = admitted
        self._on_leave = on_leave
        self._left = False
        self.scope = trio.CancelScope()
        self.since = trio.current_time()
        self.remote = remote
        self.is_front = is_front
        admitted.give_way = self.give_way

    @property
    def address(self) -> str:
        """Whose it is, as the gate counts; empty: of this host, or not yet known."""
        return self._admitted.address

    def settle(self, address: str | None) -> bool:
        """Count a front's connection at the peer's address; false: it may not go on."""
        return self._gate.settle(self._admitted, address, trio.current_time())

    def wants_ticket_of(self, holder: PeerId | None) -> bool:
        """Tell whether a ticket is needed and this one, if any, does not do."""
        if not self._admitted.needs_ticket:
            return False
        return holder is None or not self._gate.show_ticket(holder, trio.current_time())

    @property
    def needs_ticket(self) -> bool:
        """Whether it is here for its ticket only."""
        return self._admitted.needs_ticket

    def give_way(self) -> None:
        """End its handshake: another address gets the place."""
        self.scope.cancel()
        self.leave()

    def leave(self, *, proven: bool = False) -> None:
        """Give its places back, at the first call; `proven`: the peer proved its id."""
        if not self._left:
            self._left = True
            self._gate.leave(self._admitted, proven=proven, now=trio.current_time())
            self._on_leave(self)
