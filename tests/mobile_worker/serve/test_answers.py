"""Repeats of requests."""

from mobile_worker.messages.serving import Output, OutputError
from mobile_worker.serve.answers import AnswerCache, Repeat
from relay.keys import PeerId
from tests.support.money import dispatch_of

PEER, OTHER = PeerId(b"p" * 32), PeerId(b"o" * 32)


def output(request: int, n_bytes: int = 68) -> Output:
    return Output(
        request=request,
        error=OutputError.OK,
        compute_us=1,
        n_rows_total=1,
        results=bytes(n_bytes),
    )


def test_b32_a_request_is_new_under_way_then_answered() -> None:
    cache, dispatch = AnswerCache(), dispatch_of(0)
    assert cache.seen(PEER, dispatch) is None
    cache.taken(PEER, dispatch)
    assert cache.seen(PEER, dispatch) == Repeat(answer=None, same=True)
    assert cache.seen(OTHER, dispatch) is None
    assert cache.seen(PEER, dispatch_of(0, tab=b"othertab")) is None
    answer = output(dispatch.request)
    cache.answered(PEER, dispatch, answer)
    assert cache.seen(PEER, dispatch) == Repeat(answer=answer, same=True)


def test_another_request_under_the_same_number_is_not_the_same() -> None:
    cache, dispatch = AnswerCache(), dispatch_of(0, request=7)
    cache.taken(PEER, dispatch)
    for other in (
        dispatch_of(1, request=7),
        dispatch_of(0, [1], request=7),
        dispatch_of(0, rows=2, request=7),
        dispatch_of(0, request=7, nonce=b"nonce-01"),
    ):
        repeat = cache.seen(PEER, other)
        assert repeat is not None
        assert not repeat.same


def test_the_oldest_answers_go_first_and_what_is_computed_stays() -> None:
    cache = AnswerCache(max_bytes=1000, max_entries=100)
    dispatches = [dispatch_of(n) for n in range(20)]
    for n, dispatch in enumerate(dispatches):
        cache.taken(PEER, dispatch)
        if n:
            cache.answered(PEER, dispatch, output(dispatch.request, 100))
    known = [n for n, each in enumerate(dispatches) if cache.seen(PEER, each)]
    assert known == [0, *range(10, 20)]


def test_many_small_answers_are_bounded_too() -> None:
    cache = AnswerCache(max_entries=5)
    for n in range(20):
        cache.taken(PEER, dispatch_of(n))
        cache.answered(PEER, dispatch_of(n), output(1000 + n))
    known = [n for n in range(20) if cache.seen(PEER, dispatch_of(n))]
    assert known == [15, 16, 17, 18, 19]


def test_a_dropped_request_is_new_again() -> None:
    cache, dispatch = AnswerCache(), dispatch_of(0)
    cache.taken(PEER, dispatch)
    cache.dropped(PEER, dispatch)
    assert cache.seen(PEER, dispatch) is None
    cache.answered(PEER, dispatch, output(dispatch.request))
    assert cache.seen(PEER, dispatch) is None
