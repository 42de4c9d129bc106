"""One generation, from blocks of tokens to pieces of text and an answer.

A run that ends without saying why is a failure, not an answer (fault B23). When a stop
rule ends the text first, leaving the generator's context stops the engine.
"""

from collections.abc import AsyncGenerator

from p2pmoe.api.bodies import Answer
from p2pmoe.api.preparation import Prepared
from p2pmoe.backbone.generation import (
    FailureKind,
    FinishReason,
    GenerationFailed,
    GenerationRun,
)
from p2pmoe.text.stopping import CompletionText
from p2pmoe.text.tokenizer import Tokenizer

__all__ = ["Running"]


class Running:
    """The text side of a run in flight."""

    def __init__(
        self, run: GenerationRun, prepared: Prepared, tokenizer: Tokenizer
    ) -> None:
        """Begin with nothing delivered."""
        self._run = run
        self._n_prompt = len(prepared.generation.prompt_ids)
        self._text = CompletionText(prepared.rules, tokenizer.token_bytes)
        self._finish: FinishReason | None = None

    async def pieces(self) -> AsyncGenerator[str]:
        """Yield the text of each accepted block, often an empty one; close it after.

        Raises:
            GenerationFailed: The engine gave up, or ended without a reason.
        """
        steps = aiter(self._run)
        try:
            async for step in steps:
                delta = self._text.accept(step.tokens)
                yield delta.text
                if delta.finish is not None:
                    self._finish = delta.finish
                    return
        finally:
            if isinstance(steps, AsyncGenerator):
                await steps.aclose()
        self._finish = self._run.end().finish_reason
        if self._finish is None:
            reason = "the generation stopped without an end"
            raise GenerationFailed(FailureKind.INTERNAL, reason)
        rest = self._text.finish().text
        if rest:
            yield rest

    def answer(self) -> Answer:
        """Return the figures, once `pieces` has ended.

        Raises:
            GenerationFailed: It has not ended.
        """
        if self._finish is None:
            raise GenerationFailed(FailureKind.INTERNAL, "the answer is not complete")
        return Answer(
            finish=self._finish,
            tokens=self._text.tokens,
            n_prompt=self._n_prompt,
            end=self._run.end(),
        )
