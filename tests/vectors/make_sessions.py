"""Write golden sessions: `python -m tests.vectors.make_sessions`.

`protocol/sessions.json`: replay windows, byte credit, pieces, and two sessions packet
by packet. All that is random in them is drawn from names, so that another program can
play either side: draw n of a side, from 1 on, is `drawn("SCENARIO SIDE", n, size)`.
"""

import json
import random
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from mobile_worker.errors import ProtocolBreach
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.flow import Receiving
from mobile_worker.session.handshake import OwnSide
from mobile_worker.session.pieces import Assembly, Piece
from mobile_worker.session.replay import ReplayWindow
from mobile_worker.session.session import Session
from tests.vectors.make_protocol import NETWORK, drawn, identity_of, peer, record_of

__all__ = ["FILE", "golden", "main"]

FILE = Path(__file__).parent / "protocol" / "sessions.json"


def replays(chance: random.Random) -> list[dict[str, object]]:
    """Counters that come out of order, and whether each is taken."""
    made: list[dict[str, object]] = []
    for spread in (1, 3, 40, 2047, 2048, 5000, 2**62):
        window, at = ReplayWindow(), 0
        case: dict[str, list[object]] = {"counters": [], "taken": []}
        for _ in range(60):
            at = min(2**64 - 1, max(0, at + chance.randint(-spread, spread)))
            fresh = window.check(at)
            if fresh:
                window.commit(at)
            case["counters"].append(str(at))
            case["taken"].append(fresh)
        made.append(dict(case))
    return made


def credits_told(chance: random.Random) -> list[list[object]]:
    """What is granted as bytes arrive: [end, window, waiting, force, told]."""
    receiving, made = Receiving(), []
    for _ in range(80):
        end = chance.randint(0, receiving.granted)
        window, waiting = 1 << chance.randint(10, 20), chance.randint(0, 1 << 18)
        force = chance.random() < 0.2
        receiving.arrived(end)
        told = receiving.grant(window, waiting, force=force)
        made.append([end, window, waiting, force, told])
    return made


def content(number: int, at: int, n: int) -> bytes:
    """Return the bytes of a piece: byte i of message m is m + i, from 256 on again."""
    return bytes((number + at + i) & 255 for i in range(n))


def cut_messages(chance: random.Random) -> list[list[list[object]]]:
    """Pieces of some messages, shuffled and spoilt, and what each comes to.

    [class, number, total, offset, bytes, "wait" | "breach" | SHA-256 of the message]
    """
    made = []
    for _ in range(60):
        pieces = []
        for number in range(chance.randint(1, 4)):
            total = chance.choice((1, 1023, 1024, 1025, 3000, 5000))
            at, in_class = 0, chance.randint(0, 2)
            while at < total:
                n = min(total - at, chance.choice((1024, 1500, 2048)))
                pieces.append([in_class, number, total, at, n])
                at += n
        spoil_pieces(chance, pieces)
        assembly, steps = Assembly(), []
        for in_class, number, total, at, n in pieces:
            view = memoryview(content(number, at, n))
            piece = Piece(MessageClass(in_class), number, total, at, view)
            try:
                whole = assembly.add(piece)
                outcome = "wait" if whole is None else sha256(whole).hexdigest()
            except ProtocolBreach:
                outcome = "breach"
            steps.append([in_class, number, total, at, n, outcome])
        made.append(steps)
    return made


def spoil_pieces(chance: random.Random, pieces: list[list[int]]) -> None:
    if chance.random() < 0.7:
        chance.shuffle(pieces)
    for _ in range(chance.choice((0, 0, 1, 2))):
        piece = list(chance.choice(pieces))
        place = chance.randrange(2, 5)
        piece[place] = max(1, piece[place] + chance.choice((-1024, -1, 0, 1, 1024)))
        pieces.insert(chance.randrange(len(pieces) + 1), piece)


class Draws:
    """The random bytes of one side, in order; ephemeral keys among them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._n = 0

    def __call__(self, size: int) -> bytes:
        self._n += 1
        return drawn(self._name, self._n, size)


def play(scenario: str, *, knows: bool) -> Iterator[list[object]]:
    """Two sides that talk: yield what is done and every packet.

    ["now", s] | ["add", side, class, bytes, fill] | ["packet", side, hex]
    """
    now, sides = 0.0, {}
    for name, other in (("one", "other"), ("other", "one")):
        own = OwnSide(
            identity=identity_of(name),
            network=NETWORK.peer_id,
            instance=drawn(f"instance {name}", 0, 8),
            record=record_bytes(name),
            random_bytes=Draws(f"{scenario} {name}"),
        )
        record = record_of(other) if knows else None
        sides[name] = Session(own, peer(other), record=record)

    def exchange() -> Iterator[list[object]]:
        quiet = 0
        while quiet < 2:
            for name, other in (("one", "other"), ("other", "one")):
                packets = sides[name].replies[:]
                sides[name].replies.clear()
                while (packet := sides[name].next_packet(now)) is not None:
                    packets.append(packet.payload)
                quiet = 0 if packets else quiet + 1
                for payload in packets:
                    yield ["packet", name, payload.hex()]
                    sides[other].receive(payload, now)

    for step in SCENARIOS[scenario]:
        if step[0] == "now":
            now = float(step[1])
        else:
            _, name, number, n, fill = step
            sides[name].add(bytes([fill]) * n, MessageClass(number))
        yield list(step)
        yield from exchange()


def record_bytes(name: str) -> Callable[[], bytes]:
    return lambda: record_of(name).encoded


SCENARIOS: dict[str, list[list[object]]] = {
    "known": [
        ["add", "one", 1, 20, 1],
        ["add", "other", 0, 300, 2],
        ["now", 5],
        ["add", "one", 2, 17_000, 3],
        ["now", 1900],  # keys are worn: new ones with the next packet
        ["add", "one", 1, 40, 4],
        ["add", "other", 1, 50, 5],
    ],
    "unknown": [
        ["add", "one", 1, 70, 1],
        ["add", "other", 1, 80, 2],
        ["now", 2],
        ["add", "one", 0, 1, 3],
    ],
}


def sessions() -> list[dict[str, object]]:
    """Both scenarios."""
    return [
        {
            "name": name,
            "knows": name == "known",
            "steps": list(play(name, knows=name == "known")),
        }
        for name in SCENARIOS
    ]


def golden() -> dict[str, object]:
    """Return everything, as it is written."""
    chance = random.Random(10)
    return {
        "replays": replays(chance),
        "credits": credits_told(chance),
        "pieces": cut_messages(chance),
        "sessions": sessions(),
    }


def main() -> None:
    """Write the file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(golden()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
