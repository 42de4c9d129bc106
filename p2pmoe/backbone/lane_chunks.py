"""A lane's prompts in chunks, several under way at once (prefill.py).

When nobody in a lane decodes, its schedule may give it more rows of prompts than one
step should have. They are cut into the steps that would have followed each other, and
those are run as a pipeline. Each that ends is taken in as any step is; one that fails
fails alone, and what was under way behind it is given up and asked for again. No chunk
begins once another has something to do: a request has come, a prompt is complete.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.lane_events import StepFailed
from p2pmoe.backbone.lane_rows import deadline_of
from p2pmoe.backbone.prefill import Pipeline, cut_rows, even_rows
from p2pmoe.backbone.scheduling.schedule import Schedule, Share
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.logits import Logits
from p2pmoe.model.model import Model
from p2pmoe.model.step import SequencePart
from p2pmoe.model.walk import Walk

__all__ = ["ChunkHooks", "LaneChunks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkHooks:
    """What a lane does with steps, whoever runs them; see `Lane`."""

    begin: Callable[[Sequence[Share]], StepTrace]
    succeeded: Callable[[list[Share], StepTrace, Sequence[Floats]], object]
    failed: Callable[[list[Share], StepTrace, Exception], object]
    under_way: Callable[[tuple[StepTrace, ...]], None]  # for others to stop
    tell: Callable[[Sequence[StepFailed]], None]
    is_closed: Callable[[], bool]


@dataclass(slots=True, eq=False)
class _Chunk:
    """One step's shares, where in their sequences they begin, and its trace."""

    shares: list[Share]
    firsts: list[int]
    step: StepTrace

    def parts(self) -> list[SequencePart]:
        """Return the rows, each part behind what is before it in its sequence."""
        return [
            _part_at(share, first)
            for share, first in zip(self.shares, self.firsts, strict=True)
        ]

    def end(self, waited_s: float) -> None:
        """Count the positions as written, and the time that nothing else filled."""
        self.step.end()
        for share in self.shares:
            share.sequence.trace.wait_s += waited_s
            if share.sequence.cache is not None:
                share.sequence.cache.advance(share.n_rows)


class LaneChunks:
    """Runs a lane's prompts; on its thread."""

    def __init__(
        self,
        model: Model,
        experts: Callable[[StepTrace, float, float | None], ExpertCaller],
        schedule: Schedule,
        hooks: ChunkHooks,
    ) -> None:
        """Begin with nothing under way; `experts` as in `LaneParts`."""
        self._model = model
        self._experts = experts
        self._schedule = schedule
        self._hooks = hooks
        self._chunks: list[_Chunk] = []  # under way

    def cut(self, shares: Sequence[Share]) -> list[list[Share]]:
        """Return the steps that shares are run in; one, if they are not too many."""
        limits = self._schedule.limits
        n_rows = sum(share.n_rows for share in shares if share.n_rows > 1)
        if n_rows <= limits.chunk_tokens:
            return [list(shares)]
        most = even_rows(
            n_rows, chunk_rows=limits.chunk_tokens, max_steps=limits.prefill_steps
        )
        return [
            [
                Share(share.sequence, n)
                for share, n in zip(shares, rows, strict=True)
                if n
            ]
            for rows in cut_rows([share.n_rows for share in shares], most)
        ]

    def run(self, chunks: Sequence[list[Share]], patience: float | None) -> None:
        """Run steps that follow each other, as many at once as there are to be."""

        def begin(chunk: _Chunk) -> Walk:
            deadline = deadline_of(chunk.shares)
            caller = self._experts(chunk.step, deadline, patience)
            return self._model.walk(chunk.parts(), caller)

        pipeline = Pipeline(
            self._begun(chunks),
            begin,
            max_steps=self._schedule.limits.prefill_steps,
        )
        try:
            for chunk, walk in pipeline.run():
                chunk.end(pipeline.waited_s)
                pipeline.waited_s = 0.0
                self._ended(chunk)
                self._hooks.succeeded(chunk.shares, chunk.step, walk.logits)
                if any(share.sequence.cache is None for share in self._shares()):
                    break  # one of them is over
        except Exception as error:
            failed = pipeline.at
            if failed is None:
                raise
            pipeline.close()
            self._ended(failed)
            failed.step.end()
            self._give_up()
            self._hooks.failed(failed.shares, failed.step, error)
        finally:
            pipeline.close()
            self._give_up()

    def _begun(self, chunks: Sequence[list[Share]]) -> Iterator[_Chunk]:
        """Yield the next chunk for as long as nothing else is to be done."""
        sequences = {share.sequence for shares in chunks for share in shares}
        firsts = {sequence: sequence.length for sequence in sequences}
        n_drawn = {sequence: sequence.n_drawn for sequence in sequences}
        version = self._schedule.version
        for n, shares in enumerate(chunks):
            is_alone = version == self._schedule.version and not any(
                sequence.n_drawn > before for sequence, before in n_drawn.items()
            )
            if n and (self._hooks.is_closed() or not is_alone):
                return
            own = [firsts[share.sequence] for share in shares]
            for share in shares:
                firsts[share.sequence] += share.n_rows
            chunk = _Chunk(shares, own, self._hooks.begin(shares))
            self._chunks.append(chunk)
            self._note()
            yield chunk

    def _ended(self, chunk: _Chunk) -> None:
        self._chunks.remove(chunk)
        self._note()
        for other in self._chunks:
            other.step.begin_again()  # what was spent so far is told with this one

    def _give_up(self) -> None:
        """Have what is still under way stopped; it changes nothing."""
        rest, self._chunks = self._chunks, []
        for chunk in rest:
            chunk.step.end()
        stopped = [StepFailed(c.step) for c in rest if not c.step.cancelled]
        if stopped:
            self._hooks.tell(stopped)
        self._note()

    def _note(self) -> None:
        self._hooks.under_way(tuple(chunk.step for chunk in self._chunks))

    def _shares(self) -> Iterator[Share]:
        return (share for chunk in self._chunks for share in chunk.shares)


def _part_at(share: Share, first: int) -> SequencePart:
    """Return a share's rows from a position that is still to be reached."""
    sequence = share.sequence
    if sequence.cache is None:
        raise ValueError("a sequence without a cache is in a step")
    end = first + share.n_rows
    wanted = Logits.LAST if end == len(sequence.tokens) else Logits.NONE
    scored = len(sequence.prompt_logprobs)
    if sequence.request.scores_prompt and scored < sequence.n_prompt:
        wanted = Logits.ALL
    tokens = sequence.tokens[first:end]
    return SequencePart(tokens, sequence.cache.view(first), wanted)
