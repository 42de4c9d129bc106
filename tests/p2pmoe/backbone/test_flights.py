"""What is out is numbered once, timed, and taken in again with its numbers."""

from p2pmoe.backbone.attempts import Purpose
from p2pmoe.backbone.flights import DispatcherParts, Flights
from p2pmoe.backbone.progress import Progress
from p2pmoe.backbone.servings import Means
from tests.support.backbone import DispatchRig, peer_id


def flights_of(rig: DispatchRig) -> tuple[Flights, Progress]:
    parts: DispatcherParts = rig.dispatcher._parts
    return Flights(parts), Progress(rig.work({1: {0: (0,), 1: (1,)}}))


def test_out_and_in() -> None:
    rig = DispatchRig({1: {0, 1}})
    flights, progress = flights_of(rig)
    (message,) = progress.work.plan.remote
    attempt = flights.send(progress, message)
    assert attempt is not None
    assert attempt.purpose is Purpose.CALL
    assert flights.get(attempt.request) is attempt
    assert flights.of_worker(peer_id(1)) == [attempt]
    assert flights.of_step(progress.work.trace) == [attempt]
    assert flights.n_by_worker() == {peer_id(1): 1}
    assert flights.next_time == attempt.deadline
    assert progress.out() == [attempt.request]
    cost = rig.fleet.workers[peer_id(1)].cost
    assert cost.in_flight_rows == 2
    assert attempt.expected_s == cost.measured_s(2, attempt.n_bytes_up)
    flights.cancel(attempt)
    flights.close(attempt)
    assert rig.cancels(1) == [attempt.request]
    assert not len(flights)
    assert not progress.out()
    assert cost.in_flight_rows == 0
    assert flights.due(attempt.deadline) == [attempt.request]


def test_what_cannot_be_sent_gives_its_numbers_back() -> None:
    rig = DispatchRig({1: {0, 1}})
    flights, progress = flights_of(rig)
    (message,) = progress.work.plan.remote
    rig.full.add(peer_id(1))
    assert flights.send(progress, message) is None
    assert rig.accounts.add_up()
    assert not progress.out()
    rig.fleet.set_means(peer_id(1), Means.FULL)
    assert flights.send(progress, message) is None
    assert len(rig.accounts.numbered) == 1


def test_sooner_moments_are_told() -> None:
    rig = DispatchRig({})
    flights, _ = flights_of(rig)
    heard: list[float | None] = []
    flights.on_sooner = lambda: heard.append(flights.next_time)
    flights.look_at(1, 5.0)
    flights.look_at(2, 6.0)
    flights.look_at(1, 4.0)
    assert heard == [5.0, 4.0]
    assert flights.due(5.5) == [1, 1]
