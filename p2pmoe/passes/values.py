"""What one pass of a lane did and waited for: values, told to whoever asked for them.

A pass is one step of the model over a lane's rows: chunks of prompts, and for each
sequence that decodes its next token and its drafts. What is told of the layers is the
lane's, for all its rows; drafts and tokens are those of one request. Filled on the
decode thread by pass_record.py; nothing here reads a clock.
"""

from dataclasses import dataclass

__all__ = ["LayerTrace", "PassTrace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTrace:
    """A layer whose experts were not all in memory here.

    Moments are seconds from the start of the pass. `missing` names the experts that the
    network was asked for and `n_rows` the rows that needed one of them: the reason of
    the trip. From `start_s`, when the calls were handed over, the lane went on by
    itself for `meanwhile_s` (its own experts, the shared one, drafts for `draft_s` of
    it) and then waited for `wait_s`. `answered_s` is the moment of the last answer, 0
    if there was none.
    """

    layer: int
    start_s: float
    missing: tuple[int, ...] = ()
    n_rows: int = 0
    trips: int = 0
    meanwhile_s: float = 0.0
    draft_s: float = 0.0
    wait_s: float = 0.0
    answered_s: float = 0.0
    n_messages: int = 0
    n_hedged: int = 0  # calls that a second worker was asked for as well
    n_failovers: int = 0  # calls that had to go elsewhere
    n_disk: int = 0  # calls that were to be computed from disk
    n_prefetched: int = 0  # calls whose weights had been fetched before the pass

    @property
    def wait_from_s(self) -> float:
        """When the lane began to wait."""
        return self.start_s + self.meanwhile_s

    @property
    def crossing_s(self) -> float:
        """From handing the calls over to the last answer, or to the end of the wait."""
        if self.answered_s > self.start_s:
            return self.answered_s - self.start_s
        return self.meanwhile_s + self.wait_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTrace:
    """One pass, as one of its requests is told of it.

    `start_s` is a moment of the backbone's clock, whose zero means nothing; moments of
    two passes of one backbone can be compared. `drafter` is empty without drafts; `why`
    says how the round was chosen. `draft_s` is drafting before the pass, that nothing
    hid. `trips` are the lane's waits for the network, that for `prefetch_s` included.
    `n_committed` tokens came of it: accepted drafts and one, 0 in the midst of a
    prompt; in `failure` is why it gave nothing. `layers` leaves out those of the
    `n_layers` whose experts were all in memory.
    """

    start_s: float
    seconds: float
    lane: int = 0
    n_rows: int = 1  # of all requests
    n_sequences: int = 1
    n_layers: int = 0  # with routed experts
    drafter: str = ""
    n_drafted: int = 0
    n_accepted: int = 0
    n_committed: int = 0
    draft_s: float = 0.0
    why: str = ""
    trips: int = 0
    wait_s: float = 0.0
    prefetch_s: float = 0.0
    n_fetched: int = 0  # experts whose weights were fetched for it
    fetched_bytes: int = 0
    failure: str = ""
    layers: tuple[LayerTrace, ...] = ()
