from p2pmoe.market.lease import Deployment
from p2pmoe.market.timetable import Timetable
from relay.keys import PeerId

ONE = Deployment(PeerId(bytes(32)), b"m" * 32)
TWO = Deployment(PeerId(bytes(32)), b"n" * 32)


def test_planning_twice_keeps_the_earlier_moment() -> None:
    times = Timetable()
    times.assign_soon(0.0)
    times.assign_soon(0.2)
    assert times.next_due() == 0.25
    assert not times.take_assignment(0.24)
    assert times.take_assignment(0.25)
    assert not times.take_assignment(0.25)
    assert times.next_due() is None


def test_placements_are_due_each_by_itself() -> None:
    times = Timetable()
    times.place_soon(ONE, 0.0)
    times.place_soon(TWO, 0.05)
    assert times.take_placements(0.1) == [ONE]
    times.placed(TWO)
    assert times.take_placements(1.0) == []


def test_suspects_and_silence_wait_their_time() -> None:
    times = Timetable()
    times.suspects[ONE.backbone] = 10.0
    times.silent_at(ONE, 20.0)
    times.move_soon(30.0)
    assert times.take_suspects(9.0) == []
    assert times.take_suspects(10.0) == [ONE.backbone]
    assert times.take_silent(20.0) == [ONE]
    assert times.next_due() == 35.0
    assert times.take_moves(35.0)


class Crowd:
    """Stands for a lease table: so many holders of everything."""

    def __init__(self, n: int) -> None:
        self.n = n

    def n_holders(self, _: Deployment) -> int:
        return self.n


def test_losses_among_few_holders_are_placed_each_at_once() -> None:
    times = Timetable()
    for now in (0.0, 0.001, 0.002):
        assert times.after_loss([ONE, ONE], now, Crowd(100)) == [ONE]
    assert times.next_due() is None


def test_losses_among_many_holders_share_a_placement() -> None:
    times, crowd = Timetable(), Crowd(2_600)  # half a second between two
    assert times.after_loss([ONE], 0.0, crowd) == [ONE]
    for now in (0.1, 0.2, 0.4):
        assert times.after_loss([ONE], now, crowd) == []
    assert times.next_due() == 0.5
    assert times.take_placements(0.5) == [ONE]
    assert times.after_loss([ONE], 0.6, crowd) == []
    assert times.take_placements(1.0) == [ONE]
    assert times.after_loss([ONE, TWO], 9.0, Crowd(10**6)) == [ONE, TWO]
    assert times.after_loss([ONE], 9.1, Crowd(10**6)) == []
    assert times.next_due() == 11.0
