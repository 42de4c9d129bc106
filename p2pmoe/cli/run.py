"""`p2pmoe run PROMPT`: complete a prompt on a running backbone.

The text goes to stdout as it comes, everything else to stderr; `--json` prints one
object instead. Exit code 1 if the answer did not come to its own end.
"""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

__all__ = ["register"]

_COMMON = ("calls", "round_trips", "round_trips_per_token")

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
Explain = Annotated[bool, typer.Option(help="Say afterwards where experts ran.")]
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
    key_file: KeyFile = None,
) -> None:
    """Complete PROMPT on a running backbone, shown as it comes."""
    from p2pmoe.cli.api_key import read_api_key
    from p2pmoe.cli.text_on_stdout import text_on_stdout
    from p2pmoe.client import complete

    body: dict[str, object] = {
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": temperature,
    }
    if seed is not None:
        body["seed"] = seed
    with text_on_stdout(quiet=as_json) as show:
        answer = complete(url, body, key=read_api_key(key_file), show=show)
    if as_json:
        report = {
            "text": answer.text,
            "finish_reason": answer.finish_reason,
            "usage": dict(answer.usage),
            "p2pmoe": dict(answer.extension),
        }
        print(json.dumps(report))
        return
    n_tokens = answer.usage.get("completion_tokens", max_tokens)
    if answer.finish_reason == "length" and n_tokens < max_tokens:
        print(f"the context is full after {n_tokens} tokens", file=sys.stderr)
    if explain:
        _explain(answer.extension)


def _explain(figures: Mapping[str, Any]) -> None:
    """Print the figures of the answer; of the rare ones, those that are not zero."""
    for name, value in figures.items():
        if name in _COMMON or (value and name != "tokens"):
            print(f"{name.replace('_', ' '):<24}{_shown(value)}", file=sys.stderr)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {n}" for key, n in value.items())
    return f"{value:.3f}" if isinstance(value, float) else str(value)
