"""What a direct link has yet to write: order, bounds, and the share of bulk."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.links.lanes import Lanes
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import Packet

CONTROL, INTERACTIVE, BULK = MessageClass


def packet(message_class: MessageClass, number: int = 0, size: int = 100) -> Packet:
    return Packet(message_class, number.to_bytes(4, "big") + bytes(size - 4))


def test_b24_the_urgent_overtakes() -> None:
    lanes = Lanes()
    for message_class in (BULK, INTERACTIVE, CONTROL):
        lanes.put(packet(message_class))
    found = [each.message_class for each in lanes.take(10, 1 << 20)]
    assert found == [CONTROL, INTERACTIVE, BULK]
    assert not lanes


def test_bulk_gets_a_tenth_beside_interactive() -> None:
    lanes = Lanes()
    for number in range(1000):
        lanes.put(packet(INTERACTIVE, number))
        lanes.put(packet(BULK, number))
    first = lanes.take(550, 1 << 20)
    n_bulk = sum(each.message_class is BULK for each in first)
    assert 45 <= n_bulk <= 55


def test_full_lanes_say_so_by_class() -> None:
    lanes = Lanes()
    assert lanes.open_to is BULK
    while lanes.open_to is BULK:
        lanes.put(packet(BULK, size=16_000))
    assert lanes.open_to is INTERACTIVE
    assert 64 << 10 <= lanes.n_bytes <= 256 << 10
    while lanes.open_to is INTERACTIVE:
        lanes.put(packet(INTERACTIVE, size=59_000))
    assert lanes.open_to is CONTROL
    while lanes.open_to is CONTROL:
        lanes.put(packet(CONTROL, size=40))
    assert lanes.open_to is None
    assert not lanes.crowded


def test_a_flood_of_answers_is_crowded() -> None:
    lanes = Lanes()
    for number in range(18):
        assert not lanes.crowded
        lanes.put(packet(INTERACTIVE, number, size=60_000))
    assert lanes.crowded


def test_few_packets_wait_in_each_lane() -> None:
    """A sealed packet must not be overtaken by more than the replay window holds."""
    lanes = Lanes()
    n = 0
    while lanes.open_to is BULK:
        lanes.put(packet(BULK, size=30))
        n += 1
    assert n <= 64


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(tuple(MessageClass)), st.integers(4, 60_000)),
            st.tuples(st.integers(1, 9), st.integers(1, 200_000)),
        ),
        max_size=60,
    ),
    st.integers(0, 3),
)
def test_nothing_is_lost_and_a_class_keeps_its_order(
    steps: list[tuple[MessageClass | int, int]], n_back: int
) -> None:
    lanes = Lanes()
    put: dict[MessageClass, list[Packet]] = defaultdict(list)
    got: dict[MessageClass, list[Packet]] = defaultdict(list)
    for number, (what, n) in enumerate(steps):
        if isinstance(what, MessageClass):
            put[what].append(packet(what, number, n))
            lanes.put(put[what][-1])
            continue
        taken = lanes.take(what, n)
        assert len(taken) <= what
        back = min(n_back, len(taken))
        lanes.put_back(taken[len(taken) - back :])
        for each in taken[: len(taken) - back]:
            got[each.message_class].append(each)
    for each in lanes.clear():
        got[each.message_class].append(each)
    assert got == put
    assert lanes.n_bytes == 0
    assert not lanes
