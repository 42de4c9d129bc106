"""Where a sequence's first positions come from, and what an ended one leaves.

Rules: only positions of the same client's sequences are reused, and only if all their
tokens are the same (prefix_store.py). The last token is always run, since its logits
are wanted. A kept cache is handed over if the sequence goes on from nearly all of it,
or if memory is so short that it would have to give way; else it is copied, by the lane,
just before the first step. One with far more room than the sequence may need is never
handed over: it would take the place of others, and its next heir would again. What is
copied from is a kept cache or a sequence of the same lane that has its whole prompt
behind it: neither changes meanwhile below the copied length.

A sequence that was cancelled before its prompt was complete leaves nothing but what it
took over; one with dropped calls, or that failed, leaves nothing at all. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from p2pmoe.backbone.scheduling.kv_pool import KvPool
from p2pmoe.backbone.scheduling.prefix_store import KeptPrefix, n_common
from p2pmoe.backbone.scheduling.sequence import Origin, SequenceState

__all__ = [
    "Opening",
    "begin_from_kept",
    "begin_from_others",
    "keep_of",
    "tell_others",
    "waits_for_another",
]

_NEARLY_ALL = 0.9
_MOST_ROOM = 2  # times what the sequence is to be granted


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Positions to grant, `spare` ones that must be left, and all other sequences."""

    room: int
    spare: int
    others: tuple[SequenceState, ...] = ()

    def is_being_copied(self, prefix: KeptPrefix) -> bool:
        """Whether some lane is about to copy from a kept cache."""
        return any(
            other.cache is None
            and other.origin is not None
            and other.origin.cache is prefix.cache
            for other in self.others
        )


def begin_from_kept(pool: KvPool, sequence: SequenceState, opening: Opening) -> bool:
    """Grant a sequence its first positions; False if there is no room for them.

    A kept prefix is handed over, or protected so that it can be copied.
    """
    found = None
    if sequence.may_reuse:
        found = pool.store.find(sequence.request.client, sequence.key()[:-1])
    wanted = opening.room + opening.spare
    if found is None:
        return _granted(pool, sequence, opening.room, wanted, None)
    prefix, length = found
    pool.store.use(prefix)
    is_short = not pool.has_room(wanted, keeping=prefix)
    goes_on = length >= _NEARLY_ALL * len(prefix.tokens)
    is_large = prefix.capacity > _MOST_ROOM * opening.room
    if opening.is_being_copied(prefix) or not (is_short or goes_on):
        return _granted(pool, sequence, opening.room, wanted, prefix)
    if is_large:  # copied if it fits beside, else less than half of it is lost
        keeping = None if is_short else prefix
        return _granted(pool, sequence, opening.room, wanted, keeping)
    if not pool.has_room(wanted):
        return False
    pool.take_over(prefix)
    sequence.origin = Origin(cache=prefix.cache, length=length, is_own=True)
    sequence.n_restored = length
    sequence.room = prefix.capacity
    if opening.room > prefix.capacity:
        pool.grant(opening.room - prefix.capacity)
        sequence.room = opening.room
    return True


def _granted(
    pool: KvPool,
    sequence: SequenceState,
    room: int,
    wanted: int,
    keeping: KeptPrefix | None,
) -> bool:
    if not pool.has_room(wanted, keeping=keeping):
        return False
    sequence.room = room
    return pool.grant(room, keeping=keeping)


def begin_from_others(
    pool: KvPool, sequence: SequenceState, running: Iterable[SequenceState]
) -> None:
    """Let a sequence that has no cache yet begin with a copy, if there is anything."""
    if not sequence.may_reuse:
        return
    client, tokens = sequence.request.client, sequence.key()[:-1]
    best = None
    found = pool.store.find(client, tokens)
    if found is not None:
        best = Origin(cache=found[0].cache, length=found[1], is_own=False)
    for other in running:
        if other.request.client == client and _is_whole(other):
            n = n_common(other.prompt[: other.length], tokens)
            if other.cache is not None and n > (0 if best is None else best.length):
                best = Origin(cache=other.cache, length=n, is_own=False)
    if best is not None:
        best = Origin(
            cache=best.cache, length=min(best.length, sequence.room), is_own=False
        )
    sequence.origin = best


def tell_others(whole: SequenceState, others: Iterable[SequenceState]) -> None:
    """Let those that have not begun know what one that is whole now has of theirs."""
    client = whole.request.client
    for other in others:
        if other.request.client == client and other.may_reuse and not _has_begun(other):
            n = n_common(whole.prompt, other.prompt[:-1])
            other.n_hint = max(other.n_hint, n)


def waits_for_another(
    sequence: SequenceState, running: Iterable[SequenceState]
) -> bool:
    """Whether one of the same client is just computing most of this one's prompt.

    It is better to begin with that, once it is whole, than to compute it beside; but
    only if that one has no more left to do than this one.
    """
    if _has_begun(sequence) or not sequence.may_reuse:
        return False
    least = max(len(sequence.tokens) // 2, sequence.n_hint)
    return any(
        n_common(other.prompt, sequence.prompt) > least
        for other in running
        if other.request.client == sequence.request.client
        and _has_begun(other)
        and not _is_whole(other)
        and other.parked_until is None
        and other.n_pending <= sequence.n_pending
        and not other.trace.dropped_calls
    )


def keep_of(sequence: SequenceState) -> KeptPrefix | None:
    """Return what an ended sequence leaves for others; None for nothing."""
    cache = sequence.cache
    if _is_whole(sequence):
        length = 0 if cache is None else cache.length
    else:
        length = sequence.n_restored
        if cache is None and sequence.origin is not None and sequence.origin.is_own:
            cache = sequence.origin.cache
    if cache is None or not length or sequence.trace.dropped_calls:
        return None
    cache.truncate(min(length, cache.length))
    return KeptPrefix(
        client=sequence.request.client,
        tokens=sequence.key()[:length],
        cache=cache,
    )


def _has_begun(sequence: SequenceState) -> bool:
    return sequence.cache is not None or sequence.origin is not None


def _is_whole(sequence: SequenceState) -> bool:
    """Whether a sequence has computed its whole prompt, and nothing was dropped."""
    return sequence.n_drawn > 0 and sequence.trace.dropped_calls == 0
