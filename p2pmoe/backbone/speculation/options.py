"""What a round may be, priced: tokens that it is expected to give, and its seconds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from p2pmoe.backbone.speculation.acceptance import Chain
from p2pmoe.backbone.speculation.drafts import DraftSource

__all__ = [
    "HOPE_MOST",
    "NUMBERS",
    "Option",
    "Way",
    "larger",
    "quickest",
    "why",
    "why_plain",
]

NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # of drafts to weigh
HOPE_MOST = 4  # of them are tried: more would cost more and tell little more


@dataclass(frozen=True, slots=True)
class Way:
    """One way to draft: who, whether weights are fetched, and what drafting takes.

    `once_s` and, for each token of the longest draft, `step_s` seconds. A way of hope
    is judged by what acceptance and time may be at best, not by what is likely.
    """

    source: DraftSource | None
    prefetch: bool = False
    is_hope: bool = False
    once_s: float = 0.0
    step_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Option:
    """A way with a number of drafts; `row_s` is what one more draft would take."""

    way: Way
    n_drafts: int
    tokens: float
    seconds: float
    rows: float = 0.0  # of its pass
    row_s: float = 0.0

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds if self.seconds > 0.0 else 0.0


def quickest(
    way: Way,
    chain: Chain,
    round_: tuple[int, int],
    pass_s: Callable[[float], float],
    most_s: float,
) -> tuple[Option | None, Option | None]:
    """Return a way's quickest option of those of at most `most_s`, and of all.

    `round_` is the number of sequences, and of all rows that a plain pass would have.
    `chain` is summed over sequences; `pass_s` tells a pass's seconds by its rows.
    """
    n, base = round_
    best = best_of_all = None
    best_rate = rate_of_all = 0.0
    n_worse = 0
    for k, tokens, rows in _sizes(way, chain, n, base):
        in_pass_s = pass_s(rows)
        seconds = in_pass_s + way.once_s + k * way.step_s
        rate = tokens / seconds if seconds > 0.0 else 0.0
        if rate <= rate_of_all:
            n_worse += 1
            if n_worse == 2:
                break  # and so it goes on
            continue
        row_s = max(0.0, in_pass_s - pass_s(rows - 1.0)) + way.step_s
        option = best_of_all = Option(way, k, tokens, seconds, rows, row_s)
        rate_of_all = rate
        if seconds <= most_s and rate > best_rate:
            best, best_rate = option, rate
    return best, best_of_all


def larger(
    option: Option,
    chain: Chain,
    round_: tuple[int, int],
    pass_s: Callable[[float], float],
) -> Option | None:
    """Return the option of twice as many drafts, if there are so many."""
    way = option.way
    for k, tokens, rows in _sizes(way, chain, *round_):
        if k >= 2 * option.n_drafts:
            seconds = pass_s(rows) + way.once_s + k * way.step_s
            return Option(way, k, tokens, seconds, rows)
    return None


def _sizes(
    way: Way, chain: Chain, n: int, base: int
) -> Iterator[tuple[int, float, float]]:
    """Yield numbers of drafts, with the tokens to expect and the rows of the pass."""
    accepted, drafted = chain
    most = min(len(accepted), HOPE_MOST) if way.is_hope else len(accepted)
    tokens, rows, at = float(n), float(base), 0
    for k in NUMBERS:
        if k > most:
            return
        tokens += sum(accepted[at:k])
        rows += sum(drafted[at:k])
        at = k
        yield k, tokens, rows


def why(best: Option, plain: Option) -> str:
    """Say why a way was chosen: `self 6: 2.8 tokens in 41.2 ms, plain 1 in 38.0 ms`."""
    verb = "tries " if best.way.is_hope else ""
    return f"{verb}{_told(best)}, plain {plain.tokens:.0f} in {_ms(plain)}"


def why_plain(plain: Option, refused: Option | None) -> str:
    """Say why a round decodes plainly."""
    if refused is None:
        return "plain: nobody has a draft"
    noun = "token" if round(plain.tokens) == 1 else "tokens"
    return f"plain: {plain.tokens:.0f} {noun} in {_ms(plain)}, {_told(refused)}"


def _told(option: Option) -> str:
    fetch = " with prefetch" if option.way.prefetch else ""
    return (
        f"{option.way.source} {option.n_drafts}{fetch}: {option.tokens:.1f} tokens in "
        f"{_ms(option)}"
    )


def _ms(option: Option) -> str:
    return f"{1e3 * option.seconds:.1f} ms"
