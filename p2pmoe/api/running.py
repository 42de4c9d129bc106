"""One choice, from blocks of tokens to pieces of an answer and its end.

A run that ends without saying why is a failure, not an answer (fault B23). When a stop
rule ends the text first, leaving the generator's context stops the engine.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from p2pmoe.api.answers import ChoiceEnd, Piece
from p2pmoe.api.echo import echoed_prompt
from p2pmoe.api.logprobs import ScoredToken
from p2pmoe.api.preparation import Prepared, PreparedChoice
from p2pmoe.backbone.generation import (
    FailureKind,
    FinishReason,
    GenerationFailed,
    GenerationRun,
    GenerationStep,
    TokenLogprobs,
)
from p2pmoe.text.stopping import CompletionText, Delta
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.text.tool_calls.calls import CalledTool, Said, Thought

__all__ = ["Running"]


class Running:
    """The text side of a run in flight."""

    def __init__(
        self,
        run: GenerationRun,
        choice: PreparedChoice,
        prepared: Prepared,
        tokenizer: Tokenizer,
    ) -> None:
        """Begin with nothing delivered."""
        self._run = run
        self._choice = choice
        self._prepared = prepared
        self._tokenizer = tokenizer
        self._text = CompletionText(choice.rules, prepared.output.token_bytes)
        self._reader = prepared.output.new_reader()
        self._scores: dict[int, TokenLogprobs] = {}
        self._n_scores = 0
        self._n_echoed = 0
        self._has_called = False
        self._finish: FinishReason | None = None

    async def pieces(self) -> AsyncGenerator[Piece]:
        """Yield what each accepted block gives, often no text; close it after.

        Raises:
            GenerationFailed: The engine gave up, or ended without a reason.
        """
        steps = aiter(self._run)
        first = True
        try:
            async for step in steps:
                echo = self._echo() if first and self._prepared.echoes else Piece()
                first = False
                yield _together(echo, self._piece(step))
                if self._finish is not None:
                    return
        finally:
            if isinstance(steps, AsyncGenerator):
                await steps.aclose()
        finish = self._run.end().finish_reason
        if finish is None:
            reason = "the generation stopped without an end"
            raise GenerationFailed(FailureKind.INTERNAL, reason)
        delta = self._text.finish()
        rest = self._read(replace(delta, finish=delta.finish or finish))
        if rest != Piece():
            yield rest

    def end(self) -> ChoiceEnd:
        """Return the figures, once `pieces` has ended.

        Raises:
            GenerationFailed: It has not ended.
        """
        if self._finish is None:
            raise GenerationFailed(FailureKind.INTERNAL, "the answer is not complete")
        return ChoiceEnd(
            index=self._choice.index,
            prompt=self._choice.prompt,
            finish=self._finish,
            tokens=[] if self._prepared.delivers_nothing else self._text.tokens,
            end=self._run.end(),
        )

    def _piece(self, step: GenerationStep) -> Piece:
        own = Piece(
            steps=() if step.figures is None else (step.figures,),
            hashes=step.hashes,
            passes=step.passes,
        )
        if self._prepared.delivers_nothing:
            self._finish = FinishReason.LENGTH
            return own
        if self._choice.generation.n_top_logprobs is not None:
            self._keep_scores(step)
        return _together(own, self._read(self._text.accept(step.tokens)))

    def _read(self, delta: Delta) -> Piece:
        """Return what is certain after more text; sets the reason if it ends here."""
        items = self._reader.push(delta.text)
        if delta.finish is not None:
            items += self._reader.finish()
            self._finish = delta.finish
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[CalledTool] = []
        for item in items:
            if isinstance(item, Said):
                texts.append(item.text)
            elif isinstance(item, Thought):
                thoughts.append(item.text)
            else:
                calls.append(item)
                self._has_called = True
                if self._prepared.output.one_call:
                    self._finish = FinishReason.STOP
                    break
        if self._has_called and self._finish is FinishReason.STOP:
            self._finish = FinishReason.TOOL_CALLS
        return Piece(
            text="".join(texts),
            thoughts="".join(thoughts),
            calls=tuple(calls),
            scored=self._scored(delta),
        )

    def _keep_scores(self, step: GenerationStep) -> None:
        if len(step.logprobs) != len(step.tokens):
            reason = "log probabilities are missing"
            raise GenerationFailed(FailureKind.INTERNAL, reason)
        for score in step.logprobs:
            self._scores[self._n_scores] = score
            self._n_scores += 1

    def _scored(self, delta: Delta) -> tuple[ScoredToken, ...]:
        if self._choice.generation.n_top_logprobs is None:
            return ()
        return tuple(
            ScoredToken(
                placed=replace(placed, start=placed.start + self._n_echoed),
                score=self._scores.pop(placed.index),
            )
            for placed in delta.placed
        )

    def _echo(self) -> Piece:
        generation = self._choice.generation
        scores: Sequence[TokenLogprobs] = ()
        if generation.scores_prompt:
            scores = self._run.prompt_logprobs()
        echo = echoed_prompt(generation.prompt_ids, scores, self._tokenizer)
        self._n_echoed = len(echo.text)
        return echo


def _together(first: Piece, second: Piece) -> Piece:
    if first == Piece():
        return second
    return Piece(
        text=first.text + second.text,
        thoughts=second.thoughts,
        calls=second.calls,
        scored=first.scored + second.scored,
        steps=first.steps + second.steps,
        hashes=first.hashes + second.hashes,
        passes=first.passes + second.passes,
    )
