"""`p2pmoe run PROMPT`: complete a prompt on a running backbone.

The text goes to stdout as it comes, everything else to stderr; `--json` prints one
object instead. Exit code 1 if the answer did not come to its own end.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.cli.explain_passes import ExplainedPass
    from p2pmoe.cli.explain_table import ExplainedStep
    from p2pmoe.cli.trace_file import TraceFile
    from p2pmoe.client import Completion, TextDelta

__all__ = ["register"]

_COMMON = ("calls", "round_trips", "round_trips_per_token")
_IN_TABLE = {
    "bytes_down",
    "bytes_up",
    "cache_hits",
    "calls",
    "dropped_calls",
    "major_faults",
    "minor_faults",
    "prefill_round_trips",
    "read_bytes",
    "round_trips",
    "wait_s",
}

_IN_SUMS = {"round_trips_per_token"}

Prompt = Annotated[
    str, typer.Argument(metavar="PROMPT", help="The text to go on from.")
]
Url = Annotated[
    str, typer.Option(metavar="URL", help="Where the backbone's API listens.")
]
MaxTokens = Annotated[int, typer.Option(metavar="N", help="How many tokens at most.")]
Temperature = Annotated[
    float, typer.Option(metavar="T", help="0 takes the likeliest token.")
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="The same seed, the same text.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Explain = Annotated[
    bool,
    typer.Option(
        help="Say afterwards where each token's experts ran, and what waited."
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Keep a hash of each layer and expert call in a new file."
    ),
]
KeyFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File that holds the API key.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("run")(_run)


def _run(
    prompt: Prompt,
    url: Url = "http://127.0.0.1:8080",
    max_tokens: MaxTokens = 64,
    temperature: Temperature = 0.0,
    seed: Seed = None,
    as_json: AsJson = False,
    explain: Explain = False,
    trace: Trace = None,
    key_file: KeyFile = None,
) -> None:
    """Complete PROMPT on a running backbone, shown as it comes."""
    from p2pmoe.cli.api_key import read_api_key

    body: dict[str, object] = {
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": temperature,
    }
    if seed is not None:
        body["seed"] = seed
    key = read_api_key(key_file)
    watcher = _Watcher(explains=explain)
    if trace is None:
        answer = _complete(url, body, key, watcher, quiet=as_json)
    else:
        from p2pmoe.cli.trace_file import trace_file

        with trace_file(trace, url, key, body) as watcher.trace:
            answer = _complete(url, body, key, watcher, quiet=as_json)
            watcher.trace.ended(answer)
    _report(answer, watcher, max_tokens, as_json=as_json)


class _Watcher:
    """Takes from each chunk what the options ask for."""

    def __init__(self, *, explains: bool) -> None:
        self.explains = explains
        self.steps: list[ExplainedStep] = []
        self.passes: list[ExplainedPass] = []
        self.trace: TraceFile | None = None

    def asked(self) -> dict[str, object]:
        """Return the fields that the request needs for it."""
        traces = self.trace is not None
        wanted = {"explain": self.explains or traces, "trace": traces}
        return {name: True for name, is_wanted in wanted.items() if is_wanted}

    def watch(self, chunk: "TextDelta") -> None:
        """Take one chunk; ApiError, NoTrace."""
        if self.explains:
            self._explain(chunk)
        if self.trace is not None:
            self.trace.watch(chunk)

    def _explain(self, chunk: "TextDelta") -> None:
        """Keep figures; the last of a chunk's led to its text."""
        from p2pmoe.cli.explain_passes import ExplainedPass
        from p2pmoe.cli.explain_table import ExplainedStep
        from p2pmoe.client import read_passes, read_step_costs

        costs, passes = read_step_costs(chunk.extension), read_passes(chunk.extension)
        for n_left, cost in zip(range(len(costs))[::-1], costs, strict=True):
            text = "" if n_left else chunk.text
            self.steps.append(ExplainedStep(text=text, cost=cost))
        for n_left, told in zip(range(len(passes))[::-1], passes, strict=True):
            text = "" if n_left else chunk.text
            self.passes.append(ExplainedPass(text=text, told=told))


def _complete(
    url: str, body: Mapping[str, object], key: str, watcher: _Watcher, *, quiet: bool
) -> "Completion":
    from p2pmoe.cli.text_on_stdout import text_on_stdout
    from p2pmoe.cli.waiting import Waiting
    from p2pmoe.client import complete

    with Waiting("reading the prompt") as waiting, text_on_stdout(quiet=quiet) as show:

        def show_piece(piece: str) -> None:
            if not quiet:
                waiting.over()
            show(piece)

        return complete(
            url,
            {**body, **watcher.asked()},
            key=key,
            show=show_piece,
            watch=watcher.watch,
        )


def _report(
    answer: "Completion", watcher: _Watcher, max_tokens: int, *, as_json: bool
) -> None:
    if as_json:
        print(json.dumps(_document(answer, watcher)))
        return
    n_tokens = answer.usage.get("completion_tokens", max_tokens)
    is_cut = isinstance(n_tokens, int) and n_tokens < max_tokens
    if answer.finish_reason == "length" and is_cut:
        print(f"the context is full after {n_tokens} tokens", file=sys.stderr)
    n_dropped = answer.extension.get("dropped_calls", 0)
    if isinstance(n_dropped, int) and n_dropped:
        line = f"{n_dropped} expert calls were left out: the answer is not exact"
        print(line, file=sys.stderr)
    if watcher.explains:
        if watcher.steps:
            from p2pmoe.cli.explain_passes import print_passes
            from p2pmoe.cli.explain_table import print_explained

            print_explained(watcher.steps)
            print_passes(watcher.passes)
        but = _IN_TABLE if watcher.steps else set()
        _explain(answer, but=but | _IN_SUMS if watcher.passes else but)


def _document(answer: "Completion", watcher: _Watcher) -> dict[str, object]:
    import dataclasses

    document: dict[str, object] = {
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "usage": dict(answer.usage),
        "p2pmoe": dict(answer.extension),
    }
    if watcher.explains:
        from p2pmoe.passes.documents import pass_document

        document["steps"] = [
            {"text": step.text, **dataclasses.asdict(step.cost)}
            for step in watcher.steps
        ]
        document["passes"] = [
            {"text": each.text, **pass_document(each.told)} for each in watcher.passes
        ]
    return document


def _explain(answer: "Completion", *, but: set[str]) -> None:
    """Print the figures of the answer; of the rare ones, those that are not zero."""
    from p2pmoe.cli.explain_table import short_text

    details = answer.usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens", 0) if isinstance(details, Mapping) else 0
    for name, value in {"cached_tokens": cached, **answer.extension}.items():
        if name in {"tokens", "steps", "passes", "hashes"} | but:
            continue
        if name in _COMMON or value:
            text = f"{name.replace('_', ' '):<24}{_shown(value)}"
            print(short_text(text, 200), file=sys.stderr)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {n}" for key, n in value.items())
    return f"{value:.3f}" if isinstance(value, float) else str(value)
