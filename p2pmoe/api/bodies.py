"""JSON bodies and stream chunks of completions, in OpenAI's shapes. Pure.

What is our own in them is in `extensions`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, unique

from p2pmoe.api.answers import Answer, ChoiceEnd, Piece
from p2pmoe.api.extensions import answer_extensions, step_extensions
from p2pmoe.api.logprobs import ScoredToken, chat_logprobs, text_logprobs
from p2pmoe.backbone.generation import FinishReason
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.text.tool_calls.calls import CalledTool

__all__ = ["Bodies", "CompletionKind"]


@unique
class CompletionKind(Enum):
    """Chat or plain text; the value is the prefix of its ids."""

    CHAT = "chatcmpl"
    TEXT = "cmpl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """Makes the bodies of one request; `created_s` in seconds since 1970.

    `new_call_id` names calls of tools.
    """

    kind: CompletionKind
    id: str
    model: str
    created_s: int
    tokenizer: Tokenizer
    new_call_id: Callable[[], str]
    include_usage: bool = False
    has_logprobs: bool = False

    def whole(self, pieces: Sequence[Piece], answer: Answer) -> dict[str, object]:
        """Return the body of a whole answer, with a piece for each choice."""
        choices = [
            self._choice(end.index, self._told(piece), piece.scored, end.finish)
            for piece, end in zip(pieces, answer.choices, strict=True)
        ]
        name = "chat.completion" if self._is_chat else "text_completion"
        return {
            **self._head(name),
            "choices": choices,
            "usage": _usage(answer),
            **answer_extensions(answer, pieces),
        }

    def piece(
        self, index: int, piece: Piece, *, first: bool, n_calls: int = 0
    ) -> dict[str, object]:
        """Return the chunk of one step of a choice, which made `n_calls` before."""
        part: dict[str, object] = {"text": piece.text}
        if self._is_chat:
            part = {"delta": self._delta(piece, first=first, n_calls=n_calls)}
        chunk = self._chunk([self._choice(index, part, piece.scored, None)])
        return {**chunk, **step_extensions(piece)}

    def last(self, end: ChoiceEnd) -> dict[str, object]:
        """Return the chunk that says why a choice ended."""
        part: dict[str, object] = {"delta": {}} if self._is_chat else {"text": ""}
        choice = {**self._choice(end.index, part, (), end.finish), "logprobs": None}
        alone = Answer(choices=[end], n_prompt=0)
        return {**self._chunk([choice]), **answer_extensions(alone, [Piece()])}

    def usage(self, answer: Answer) -> dict[str, object]:
        """Return the extra chunk of `stream_options.include_usage`."""
        return {**self._chunk([]), "usage": _usage(answer)}

    @property
    def _is_chat(self) -> bool:
        return self.kind is CompletionKind.CHAT

    def _told(self, piece: Piece) -> dict[str, object]:
        """Return the whole of a choice: a message, or a text."""
        if not self._is_chat:
            return {"text": piece.text}
        message: dict[str, object] = {
            "role": "assistant",
            "content": piece.text if piece.text or not piece.calls else None,
            "refusal": None,
        }
        if piece.thoughts:
            message["reasoning_content"] = piece.thoughts
        if piece.calls:
            message["tool_calls"] = [self._call(call) for call in piece.calls]
        return {"message": message}

    def _delta(self, piece: Piece, *, first: bool, n_calls: int) -> dict[str, object]:
        delta: dict[str, object] = {"role": "assistant"} if first else {}
        if piece.text or not (piece.calls or piece.thoughts):
            delta["content"] = piece.text
        if piece.thoughts:
            delta["reasoning_content"] = piece.thoughts
        if piece.calls:
            delta["tool_calls"] = [
                {"index": number, **self._call(call)}
                for number, call in enumerate(piece.calls, start=n_calls)
            ]
        return delta

    def _call(self, call: CalledTool) -> dict[str, object]:
        function = {"name": call.name, "arguments": call.arguments}
        return {"id": self.new_call_id(), "type": "function", "function": function}

    def _choice(
        self,
        index: int,
        part: dict[str, object],
        scored: Sequence[ScoredToken],
        finish: FinishReason | None,
    ) -> dict[str, object]:
        logprobs: dict[str, object] | None = None
        if self.has_logprobs:
            write = chat_logprobs if self._is_chat else text_logprobs
            logprobs = write(scored, self.tokenizer)
        reason = None if finish is None else finish.value
        return {"index": index, **part, "logprobs": logprobs, "finish_reason": reason}

    def _chunk(self, choices: list[dict[str, object]]) -> dict[str, object]:
        name = "chat.completion.chunk" if self._is_chat else "text_completion"
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


def _usage(answer: Answer) -> dict[str, object]:
    """Return the token counts: only what was delivered is counted."""
    return {
        "prompt_tokens": answer.n_prompt,
        "completion_tokens": answer.n_tokens,
        "total_tokens": answer.n_prompt + answer.n_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.n_cached},
    }
