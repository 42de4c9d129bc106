"""JSON bodies and stream chunks of completions, in OpenAI's shapes.

The last chunk with a finish reason, and a whole answer, also carry two objects of our
own: `timings` (where the time went) and `p2pmoe` (tiers, trips, traffic, failovers,
and the ids of the tokens that were counted). Pure.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum, unique

from p2pmoe.backbone.generation import GenerationEnd, Timings
from p2pmoe.text.stopping import FinishReason

__all__ = ["Answer", "Bodies", "CompletionKind"]


@unique
class CompletionKind(Enum):
    """Chat or plain text; the value is the prefix of its ids."""

    CHAT = "chatcmpl"
    TEXT = "cmpl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a finished generation gave; `tokens` are those that count."""

    finish: FinishReason
    tokens: Sequence[int]
    n_prompt: int
    end: GenerationEnd

    def usage(self) -> dict[str, object]:
        """Return the token counts: only what was delivered is counted."""
        n_tokens = len(self.tokens)
        return {
            "prompt_tokens": self.n_prompt,
            "completion_tokens": n_tokens,
            "total_tokens": self.n_prompt + n_tokens,
            "prompt_tokens_details": {"cached_tokens": self.end.usage.cached_tokens},
        }

    def extensions(self) -> dict[str, object]:
        """Return the objects `timings` and `p2pmoe`."""
        timings, usage = self.end.timings, self.end.usage
        n_tokens = len(self.tokens)
        return {
            "timings": _timings(timings, n_tokens),
            "p2pmoe": {
                "tokens": list(self.tokens),
                "calls": asdict(timings.calls),
                "round_trips": timings.round_trips,
                "prefill_round_trips": timings.prefill_round_trips,
                "round_trips_per_token": timings.round_trips / max(n_tokens, 1),
                "bytes_up": timings.bytes_up,
                "bytes_down": timings.bytes_down,
                "failovers": timings.failovers,
                "hedges": timings.hedges,
                "dropped_calls": timings.dropped_calls,
                "drafted_tokens": usage.drafted_tokens,
                "accepted_draft_tokens": usage.accepted_draft_tokens,
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """Makes the bodies of one request; `created_s` in seconds since 1970."""

    kind: CompletionKind
    id: str
    model: str
    created_s: int
    include_usage: bool = False

    def whole(self, text: str, answer: Answer) -> dict[str, object]:
        """Return the body of an answer that is not streamed."""
        if self.kind is CompletionKind.CHAT:
            part: dict[str, object] = {
                "message": {"role": "assistant", "content": text, "refusal": None}
            }
            name = "chat.completion"
        else:
            part, name = {"text": text}, "text_completion"
        return {
            **self._head(name),
            "choices": [_choice(part, answer.finish)],
            "usage": answer.usage(),
            **answer.extensions(),
        }

    def piece(self, text: str, *, first: bool) -> dict[str, object]:
        """Return the chunk of one step."""
        delta: dict[str, object] = {"content": text}
        if first:
            delta = {"role": "assistant", "content": text}
        return self._chunk([_choice(self._part(delta, text), None)])

    def last(self, answer: Answer) -> dict[str, object]:
        """Return the chunk that says why the answer ended."""
        choice = _choice(self._part({}, ""), answer.finish)
        return {**self._chunk([choice]), **answer.extensions()}

    def usage(self, answer: Answer) -> dict[str, object]:
        """Return the extra chunk of `stream_options.include_usage`."""
        return {**self._chunk([]), "usage": answer.usage()}

    def _part(self, delta: dict[str, object], text: str) -> dict[str, object]:
        if self.kind is CompletionKind.CHAT:
            return {"delta": delta}
        return {"text": text}

    def _chunk(self, choices: list[dict[str, object]]) -> dict[str, object]:
        chat = self.kind is CompletionKind.CHAT
        name = "chat.completion.chunk" if chat else "text_completion"
        chunk = {**self._head(name), "choices": choices}
        if self.include_usage:
            chunk["usage"] = None
        return chunk

    def _head(self, name: str) -> dict[str, object]:
        return {
            "id": self.id,
            "object": name,
            "created": self.created_s,
            "model": self.model,
        }


def _choice(part: dict[str, object], finish: FinishReason | None) -> dict[str, object]:
    reason = None if finish is None else finish.value
    return {"index": 0, **part, "logprobs": None, "finish_reason": reason}


def _timings(timings: Timings, n_tokens: int) -> dict[str, float]:
    per_second = n_tokens / timings.decode_s if timings.decode_s > 0 else 0.0
    return {
        "queued_s": timings.queued_s,
        "prefill_s": timings.prefill_s,
        "decode_s": timings.decode_s,
        "tokens_per_s": per_second,
    }
