"""Wire and line on a clock that is a number."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.support.injector.conditions import Path, Stall
from tests.support.injector.line import MAX_BYTES, Fate, Line, Taken, Wire

NOTHING = Taken(b"", Fate.GOES_ON)


def line_of(path: Path) -> Line:
    return Line(Wire(path, 0.0), 0.0)


def test_a_chunk_leaves_after_the_delay():
    line = line_of(Path(delay_s=0.5))
    assert line.next_time is None
    line.put(b"ab", 10.0)
    assert line.next_time == 10.5
    assert line.take(10.4) == NOTHING
    assert line.take(10.5) == Taken(b"ab", Fate.GOES_ON)
    assert line.next_time is None


def test_a_bandwidth_lets_chunks_follow_each_other():
    line = line_of(Path(delay_s=1.0, bytes_s=100.0))
    line.put(bytes(50), 0.0)
    line.put(bytes(50), 0.0)
    assert line.next_time == 1.5
    assert len(line.take(1.9).chunk) == 50
    assert line.next_time == 2.0


def test_connections_share_the_wire():
    wire = Wire(Path(bytes_s=100.0), 0.0)
    first, second = Line(wire, 0.0), Line(wire, 0.0)
    first.put(bytes(100), 0.0)
    second.put(bytes(100), 0.0)
    assert (first.next_time, second.next_time) == (1.0, 2.0)


def test_nothing_enters_while_the_wire_stalls():
    line = line_of(Path(stalls=(Stall(at_s=1.0, for_s=2.0), Stall(at_s=3.0, for_s=1))))
    line.put(b"a", 0.5)
    line.put(b"b", 1.5)
    assert line.take(0.5).chunk == b"a"
    assert line.next_time == 4.0


def test_each_third_chunk_waits():
    line = line_of(Path(stall_every=3, stall_s=1.0))
    times = []
    for at in range(6):
        line.put(b"x", 10.0 * at)
        times.append(line.next_time - 10.0 * at)
        line.take(math.inf)
    assert times == [0, 0, 1, 0, 0, 1]


def test_a_line_breaks_behind_so_many_bytes():
    line = line_of(Path(kill_after_bytes=5))
    line.put(b"abc", 0.0)
    assert line.take(0.0) == Taken(b"abc", Fate.GOES_ON)
    line.put(b"defg", 0.0)
    assert line.take(0.0) == Taken(b"de", Fate.BREAKS)
    assert line.is_over
    assert line.next_time is None


def test_a_line_breaks_at_a_time_and_one_opened_later_does_not():
    wire = Wire(Path(kill_at_s=2.0), 1.0)
    early, late = Line(wire, 1.0), Line(wire, 3.5)
    early.put(b"a", 2.0)
    early.take(2.0)
    assert early.next_time == 3.0
    early.put(b"b", 3.1)
    assert early.take(3.2) == Taken(b"", Fate.BREAKS)
    late.put(b"c", 4.0)
    assert late.take(4.0) == Taken(b"c", Fate.GOES_ON)


def test_a_change_holds_for_what_comes_after_it():
    wire = Wire(Path(delay_s=1.0), 0.0)
    line = Line(wire, 0.0)
    line.put(b"slow", 0.0)
    wire.change(Path(), 0.5)
    line.put(b"fast", 0.5)  # but it overtakes nothing
    line.put(b"", 0.5)
    assert line.take(0.9) == NOTHING
    assert line.take(1.0) == Taken(b"slowfast", Fate.ENDS)


def test_room_is_given_back_once_sent():
    line = line_of(Path(bytes_s=1000.0))
    while line.room:
        line.put(bytes(line.room), 0.0)
    taken = line.take(math.inf)
    assert not line.room
    line.sent(len(taken.chunk))
    assert line.room


def test_without_a_bandwidth_a_line_is_still_bounded():
    line = line_of(Path(delay_s=1.0))
    n_bytes = 0
    while line.room:
        n_bytes += line.room
        line.put(bytes(line.room), 0.0)
    assert n_bytes == MAX_BYTES


paths = st.builds(
    Path,
    delay_s=st.floats(0, 2),
    jitter_s=st.floats(0, 1),
    bytes_s=st.none() | st.floats(0.5, 1e6),
    stall_every=st.integers(0, 3),
    stall_s=st.floats(0, 2),
    stalls=st.lists(
        st.builds(Stall, at_s=st.floats(0, 5), for_s=st.floats(0, 2)), max_size=2
    ).map(lambda stalls: tuple(sorted(stalls, key=lambda stall: stall.at_s))),
)
steps = st.lists(st.tuples(st.binary(max_size=6), st.floats(0, 1), paths), max_size=20)


def run(path: Path, story: list, seed: str) -> tuple[list[float], list[Taken]]:
    """Return when each chunk may leave at the earliest, and what left then."""
    wire = Wire(path, 0.0)
    line = Line(wire, 0.0, seed)
    now, taken, earliest = 0.0, [], []
    for chunk, pause, changed in story:
        now += pause
        passing = len(chunk) / wire.path.bytes_s if wire.path.bytes_s else 0.0
        earliest.append(now + wire.path.delay_s + passing)
        line.put(chunk, now)
        wire.change(changed, now)
    while line.next_time is not None:
        at = line.next_time
        assert line.take(math.nextafter(at, -math.inf)) == NOTHING
        taken.append((at, line.take(at)))
    return earliest, taken


@given(paths, steps, st.text(max_size=3))
def test_bytes_come_out_whole_in_order_and_never_too_early(path, story, seed):
    story = [(chunk or b"x", pause, changed) for chunk, pause, changed in story]
    story.append((b"", 0.0, path))
    earliest, taken = run(path, story, seed)
    sent = b"".join(chunk for chunk, _, _ in story)
    assert b"".join(one.chunk for _, one in taken) == sent
    assert [one.fate for _, one in taken][-1] is Fate.ENDS
    assert not any(one.fate is not Fate.GOES_ON for _, one in taken[:-1])
    left = 0
    ends = [sum(len(c) for c, _, _ in story[: n + 1]) for n in range(len(story))]
    for at, one in taken:
        left += len(one.chunk)
        chunks = zip(earliest[:-1], ends[:-1], strict=True)
        due = [when for when, end in chunks if end <= left]
        assert not due or at >= max(due) - 1e-9


@given(paths, steps, st.text(max_size=3))
def test_the_same_seed_is_the_same_line(path, story, seed):
    assert run(path, story, seed) == run(path, story, seed)
