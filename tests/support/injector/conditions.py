"""What a link is like in each direction, and the links that the design names.

With `line` (when each byte leaves, without I/O and without chance but for the seeded
jitter) and `proxy` (which carries TCP connections by it) this is a network made worse
on purpose, on loopback: distance, bandwidth, stalls, breaks.

`up` goes from whoever connects to the proxy to what lies behind it, `down` comes back.
All times are seconds, counted from when a `Path` is set; all figures may be changed
while connections are open and hold for the chunks that come after.
"""

from dataclasses import dataclass, field

__all__ = [
    "HUB",
    "NEAR",
    "OFFICE",
    "PHONE",
    "PRESETS",
    "Link",
    "Path",
    "Stall",
    "distance",
]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Nothing enters the wire for `for_s` from `at_s` on."""

    at_s: float
    for_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One direction; the default is a wire that does nothing.

    `bytes_s` is shared by all connections of the proxy, None is no limit. `jitter_s` is
    the most that is added to the delay of a chunk, evenly drawn from the proxy's seed.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_s: float | None = None
    stalls: tuple[Stall, ...] = ()  # in order, apart
    stall_every: int = 0  # each so many chunks (0: never) the wire stops for
    stall_s: float = 0.0  # this long
    kill_after_bytes: int | None = None  # a connection breaks behind so many bytes
    kill_at_s: float | None = None  # connections open then break


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Both directions."""

    up: Path = field(default_factory=Path)
    down: Path = field(default_factory=Path)


def distance(one_way_s: float) -> Link:
    """Return a link that only delays, alike both ways."""
    return Link(up=Path(delay_s=one_way_s), down=Path(delay_s=one_way_s))


NEAR = Link()

# design/00-mission, "office link": RTT 3.4 ms, 6.1 MB/s up, 11.2 MB/s down.
OFFICE = Link(
    up=Path(delay_s=0.0017, bytes_s=6.1e6), down=Path(delay_s=0.0017, bytes_s=11.2e6)
)

# design/03-relay, rate class "browser and phone": 2 MiB/s; design/08-backbone measures
# the edge at 100 ms RTT. The design has no figure for jitter: 20 ms is assumed.
PHONE = Link(
    up=Path(delay_s=0.05, jitter_s=0.02, bytes_s=2 * _MIB),
    down=Path(delay_s=0.05, jitter_s=0.02, bytes_s=2 * _MIB),
)

# design/03-relay, rate class "hub and backbone": 64 MiB/s; design/00-mission: light in
# fibre takes 5 microseconds a km, here 50 km a way.
HUB = Link(
    up=Path(delay_s=0.00025, bytes_s=64 * _MIB),
    down=Path(delay_s=0.00025, bytes_s=64 * _MIB),
)

PRESETS = {"office": OFFICE, "phone": PHONE, "hub": HUB}
