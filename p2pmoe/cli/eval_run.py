"""`p2pmoe eval MODEL`: measure a model as its users get it, and store the run.

A `serve` of MODEL is started on loopback with the options behind `--`, or one that runs
is asked with --url. Figures go to stdout; progress, and where the run is stored, to
stderr. Exit code 1 if the model could not be measured.
"""

import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from p2pmoe.evaluate.asking import HttpApi, ServedCard
    from p2pmoe.evaluate.evaluation import EvaluationPlan
    from p2pmoe.evaluate.run_record import EvaluationRun
    from p2pmoe.evaluate.text_plan import Cutting
    from p2pmoe.weights.model_file import ModelFile

__all__ = ["register"]

Tell = Callable[[str, float], None]

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="A GGUF file, a safetensors folder, or `pocket`; with --url, the model "
        "whose tokenizer cuts the text.",
        show_default=False,
    ),
]
ServeOptions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- OPTIONS",
        help="Options of `p2pmoe serve`, such as `-- --ram 8G`.",
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Ask the backbone that listens here."),
]
TextFile = Annotated[
    Path | None,
    typer.Option("--text", metavar="FILE", help="A text to predict, UTF-8."),
]
SetFile = Annotated[
    Path | None,
    typer.Option("--set", metavar="FILE", help="Tasks, one JSON object a line."),
]
Reference = Annotated[
    str | None,
    typer.Option(
        metavar="RUN", help="A stored run to agree with: file, digest or `last`."
    ),
]
Windows = Annotated[
    int,
    typer.Option(
        min=0, max=4096, metavar="N", help="Windows of the text; 0 takes all."
    ),
]
WindowTokens = Annotated[
    int, typer.Option(min=8, max=65536, metavar="N", help="Tokens of a window.")
]
Continuations = Annotated[
    int,
    typer.Option(min=0, max=256, metavar="N", help="Windows to go on from, greedily."),
]
ContinuationTokens = Annotated[
    int,
    typer.Option(
        "--tokens", min=1, max=4096, metavar="N", help="Tokens of a continuation."
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where runs are stored; else with `serve`'s."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
KeyFile = Annotated[
    str | None,
    typer.Option("--api-key-file", metavar="FILE", help="File with the key for --url."),
]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("run")(_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is measured: a model here, or a backbone elsewhere."""

    model: str | None
    options: list[str]
    url: str | None
    key: str
    folder: Path


def _run(
    model: Model = None,
    options: ServeOptions = None,
    url: Url = None,
    text: TextFile = None,
    task_set: SetFile = None,
    reference: Reference = None,
    windows: Windows = 32,
    window_tokens: WindowTokens = 256,
    continuations: Continuations = 8,
    tokens: ContinuationTokens = 32,
    save: Save = None,
    as_json: AsJson = False,
    api_key_file: KeyFile = None,
) -> None:
    """Measure a model's answers on a text, a set of tasks, or both."""
    from p2pmoe.cli.api_key import read_api_key
    from p2pmoe.cli.data_folders import evaluations_folder
    from p2pmoe.cli.eval_view import print_run
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.evaluate.store import find_run, load_run, save_run
    from p2pmoe.evaluate.text_plan import Cutting
    from p2pmoe.network.running import run_to_the_end

    folder = save or evaluations_folder()
    key = read_api_key(api_key_file)
    wanted = _wanted(model, options or [], url, key, folder)
    cutting = Cutting(
        window_tokens=window_tokens,
        n_windows=windows,
        n_continuations=continuations,
        continuation_tokens=tokens,
    )
    known = None if reference is None else load_run(find_run(reference, folder))
    with LateBar() as bar, _opened(wanted) as model_file:
        plan = _plan(text, task_set, known, cutting, model_file)
        measure = _measured(wanted, model_file, plan, bar.tell)
        run = run_to_the_end(measure)
    path = save_run(folder, run)
    print(f"stored as {path}", file=sys.stderr)
    print_run(run, path, as_json=as_json)


def _wanted(
    model: str | None, options: list[str], url: str | None, key: str, folder: Path
) -> _Wanted:
    from p2pmoe.errors import ConfigurationError

    if model is not None and model.startswith("-"):  # `eval -- --manifest URL`
        options = [model, *options]
        model = None
    if options and not options[0].startswith("-"):
        raise ConfigurationError(
            f"{options[0]!r} is one argument too many",
            advice="options of `serve` go behind --",
        )
    if url is not None and options:
        raise ConfigurationError(
            "options of `serve` say nothing with --url",
            advice="give them to the `serve` that listens there",
        )
    if model is None and url is None and not options:
        raise ConfigurationError(
            "neither a model nor a --url is named",
            advice="name a model file, a folder or `pocket`, or a backbone's --url",
        )
    return _Wanted(model=model, options=options, url=url, key=key, folder=folder)


@contextmanager
def _opened(wanted: _Wanted) -> "Iterator[ModelFile | None]":
    """Open the model that is named, if one is."""
    from p2pmoe.cli.extras import check_extra
    from p2pmoe.cli.model_path import model_path
    from p2pmoe.weights.model_file import open_model

    check_extra("serve")
    if wanted.model is None:
        yield None
        return
    with open_model(model_path(wanted.model)) as model_file:
        yield model_file


def _plan(
    text: Path | None,
    task_set: Path | None,
    reference: "EvaluationRun | None",
    cutting: "Cutting",
    model_file: "ModelFile | None",
) -> "EvaluationPlan":
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.evaluate.agreement import check_reference
    from p2pmoe.evaluate.evaluation import EvaluationPlan
    from p2pmoe.evaluate.task_set import load_tasks
    from p2pmoe.evaluate.text_plan import plan_text
    from p2pmoe.text.tokenizer import load_tokenizer

    if text is None and task_set is None:
        raise ConfigurationError(
            "there is nothing to measure on", advice="give --text, --set or both"
        )
    if reference is not None and text is None:
        raise ConfigurationError(
            "--reference needs the --text to agree on", advice="give --text too"
        )
    tasks = None if task_set is None else load_tasks(task_set)
    load = None if model_file is None else lambda: load_tokenizer(model_file)
    cut = None if text is None else plan_text(text, cutting, load)
    if reference is not None:
        check_reference(reference, cut)
    return EvaluationPlan(text=cut, tasks=tasks, reference=reference)


def _measured(
    wanted: _Wanted,
    model_file: "ModelFile | None",
    plan: "EvaluationPlan",
    tell: Tell,
) -> "Callable[[], Any]":
    """Return the async work that measures."""
    from mobile_worker.clock import SystemClock
    from p2pmoe.evaluate.evaluation import evaluate

    async def work() -> "EvaluationRun":
        with tempfile.TemporaryDirectory(prefix="p2pmoe-eval-") as stage:
            async with _asked(wanted, model_file, Path(stage), tell) as api:
                card = await api.card()
                _check_model(model_file, card)
                made = _time_of(SystemClock().wall_us())
                return await evaluate(api, card, plan, made, tell)

    return work


@asynccontextmanager
async def _asked(
    wanted: _Wanted, model_file: "ModelFile | None", stage: Path, tell: Tell
) -> "AsyncIterator[HttpApi]":
    """Yield the API to ask: the one at the URL, or that of a `serve` of our own."""
    from p2pmoe.evaluate.asking import open_api
    from p2pmoe.evaluate.serving import ServeOptions, serving, wait_until_ready

    if wanted.url is not None:
        async with open_api(wanted.url, wanted.key) as api:
            await wait_until_ready(api, tell, within_s=60.0)
            yield api
        return
    if model_file is not None:
        await _know_weights(model_file, wanted.folder, stage, tell)
    own = ServeOptions(model=wanted.model, options=wanted.options)
    async with serving(stage, own, tell) as api:
        yield api


async def _know_weights(
    model_file: "ModelFile", folder: Path, stage: Path, tell: Tell
) -> None:
    """Read the model's bytes once, so that the configuration names them."""
    import trio

    from p2pmoe.evaluate.store import FOLDER_NAME
    from p2pmoe.evaluate.weights_digest import (
        known_weights,
        read_weights,
        remember_weights,
    )

    def work() -> None:
        digest = known_weights(model_file, folder) or read_weights(
            model_file, lambda share: tell("reading the model", share)
        )
        remember_weights(model_file, folder, digest)
        remember_weights(model_file, stage / "data" / FOLDER_NAME, digest)

    await trio.to_thread.run_sync(work, abandon_on_cancel=True)


def _check_model(model_file: "ModelFile | None", card: "ServedCard") -> None:
    """Refuse a model file that is not the one that is served."""
    from p2pmoe.errors import ConfigurationError

    told = (card.configuration or {}).get("fingerprint")
    if model_file is None or told is None or told == model_file.fingerprint().hex():
        return
    raise ConfigurationError(
        f"{model_file.path} is not the model {card.name!r} that is served there",
        advice="name the same file, or none",
    )


def _time_of(wall_us: int) -> str:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(wall_us // 1_000_000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
