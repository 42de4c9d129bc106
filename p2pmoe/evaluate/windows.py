"""A text cut into windows, and what the API's answers say of each.

The same procedure as `perplexity` does in one process, but asked for over the API
(`/v1/completions` with `echo` and `logprobs`), so that what users get is what is
measured, whatever the placement. With the model's tokenizer at hand, windows are ids
of equal length and the figure is that of llama.cpp's `llama-perplexity`; without it
they are pieces of the text that end at a space.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from p2pmoe.evaluate.errors import MeasurementFailed
from p2pmoe.evaluate.perplexity import chunks_of
from p2pmoe.evaluate.run_record import WindowScore

__all__ = [
    "EchoedToken",
    "Window",
    "echoed_tokens",
    "perplexity_of",
    "scored_window",
    "tokens_digest",
    "windows_by_characters",
    "windows_by_ids",
]

CHARACTERS_PER_TOKEN: Final = 4  # of a window without a tokenizer; any would do
_MAX_EXPONENT: Final = 690.0  # e to it is still a number


@dataclass(frozen=True, slots=True)
class Window:
    """A prompt to be scored: token ids, or text."""

    prompt: tuple[int, ...] | str

    @property
    def beginning(self) -> list[int] | str:
        """The first half, from which a greedy continuation is asked."""
        half = self.prompt[: len(self.prompt) // 2]
        return half if isinstance(half, str) else list(half)


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoedToken:
    """A token of the prompt as the API tells it; the first has no `logprob`."""

    text: str
    offset: int  # in characters of the prompt
    logprob: float | None
    top: str  # the likeliest token there, "" for the first


def windows_by_ids(
    ids: Sequence[int], n_tokens: int, most: int, *, has_bos: bool
) -> list[Window]:
    """Cut ids into at most `most` whole windows; see `chunks_of`.

    With `has_bos` the first id is the beginning of sequence, and begins every window.
    """
    if has_bos:
        chunks: Iterable[Sequence[int]] = chunks_of(ids, ids[0], n_tokens)
    else:
        starts = range(0, len(ids) - n_tokens + 1, n_tokens)
        chunks = (ids[start : start + n_tokens] for start in starts)
    return [Window(tuple(chunk)) for chunk in islice(chunks, most)]


def windows_by_characters(text: str, n_tokens: int, most: int) -> list[Window]:
    """Cut a text into at most `most` pieces of about `n_tokens` tokens."""
    n_characters = CHARACTERS_PER_TOKEN * n_tokens
    windows: list[Window] = []
    at = 0
    while at + n_characters <= len(text) and len(windows) < most:
        space = text.rfind(" ", at + n_characters // 2, at + n_characters)
        end = space if space > 0 else at + n_characters
        windows.append(Window(text[at:end]))
        at = end
    return windows


def echoed_tokens(document: Mapping[str, Any]) -> list[EchoedToken]:
    """Return the prompt's tokens of an answer with `echo` and `logprobs`.

    Raises:
        MeasurementFailed: the answer does not hold them.
    """
    try:
        told = document["choices"][0]["logprobs"]
        n_prompt = document["usage"]["prompt_tokens"]
        columns = [
            told[name][:n_prompt]
            for name in ("tokens", "text_offset", "token_logprobs", "top_logprobs")
        ]
    except (KeyError, IndexError, TypeError) as error:
        raise MeasurementFailed(
            "the server gives no log probabilities of the prompt",
            advice="it must support echo with logprobs in /v1/completions",
        ) from error
    if len({len(column) for column in columns}) != 1 or len(columns[0]) != n_prompt:
        raise MeasurementFailed(
            f"the server echoes {len(columns[0])} of {n_prompt} tokens of the prompt"
        )
    return [_token(n, *row) for n, row in enumerate(zip(*columns, strict=True))]


def _token(
    number: int, text: object, offset: object, logprob: object, top: object
) -> EchoedToken:
    is_first = number == 0
    if not isinstance(text, str) or type(offset) is not int:
        raise MeasurementFailed(f"token {number} of the echo is {str(text)[:40]!r}")
    if is_first and logprob is None:
        return EchoedToken(text=text, offset=offset, logprob=None, top="")
    if not _is_logprob(logprob):
        raise MeasurementFailed(
            f"the log probability of token {number} is {str(logprob)[:40]}"
        )
    if (
        not isinstance(top, Mapping)
        or not top
        or not all(map(_is_logprob, top.values()))
    ):
        raise MeasurementFailed(f"token {number} has no likeliest token beside it")
    return EchoedToken(
        text=text,
        offset=offset,
        logprob=min(0.0, float(str(logprob))),
        top=str(max(top, key=lambda each: top[each])),
    )


def _is_logprob(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -1e6 < float(str(value)) < 1e-3


def scored_window(tokens: Sequence[EchoedToken]) -> WindowScore:
    """Return the scores of the second half, each token predicted from all before it.

    Raises:
        MeasurementFailed: there are too few tokens to score.
    """
    scored = tokens[len(tokens) // 2 + 1 :]
    if not scored:
        raise MeasurementFailed(f"a window of {len(tokens)} tokens cannot be scored")
    return WindowScore(
        logprobs=tuple(round(token.logprob or 0.0, 7) for token in scored),
        top=tuple(token.top for token in scored),
    )


def perplexity_of(windows: Sequence[WindowScore]) -> float:
    """Return e to the mean negative log likelihood of all scored tokens."""
    scored = [logprob for window in windows for logprob in window.logprobs]
    return math.exp(min(-math.fsum(scored) / len(scored), _MAX_EXPONENT))


def tokens_digest(texts: Iterable[str]) -> str:
    """Return a digest of tokens' texts, which another vocabulary does not have."""
    digest = hashlib.sha256()
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.hexdigest()[:32]
