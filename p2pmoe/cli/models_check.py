"""`p2pmoe models check`: compare a model with a stored reference.

Prints the largest absolute error of the logits and how many greedy ids are equal. Exit
code 0 if the error is within the tolerance and all ids are equal, 1 if not, 2 for a
model or a reference that cannot be used. With `--workers` the routed experts are
computed by worker processes of a network of its own on this machine, and the report
says by whom.
"""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mobile_worker.arithmetic.profiles import Profile
    from p2pmoe.check.check import CheckOptions, CheckReport

__all__ = ["register"]

Model = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="A GGUF file, a safetensors folder, or `pocket`."
    ),
]
ReferenceFile = Annotated[
    Path,
    typer.Option(
        "--reference",
        metavar="FILE",
        help="An .npz file with prompt, rows, logits and greedy.",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        min=0,
        max=32,
        metavar="N",
        help="Have so many worker processes compute the experts; 0 computes all here.",
    ),
]
ResultProfile = Annotated[
    str, typer.Option(metavar="PROFILE", help="r32 | r16 | r8: coding of results.")
]
Tolerance = Annotated[
    float,
    typer.Option(metavar="ERROR", help="The largest absolute error of a logit."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `models`."""
    group.command("check")(_check)


def _check(
    path: Model,
    reference: ReferenceFile,
    workers: Workers = 0,
    profile: ResultProfile = "r32",
    tolerance: Tolerance = 2e-4,
    as_json: AsJson = False,
) -> None:
    """Compare a model's logits and greedy ids with a stored reference."""
    from p2pmoe.check.check import CheckOptions, check_model
    from p2pmoe.cli.computing import default_threads, wanted_kernel
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.cli.model_path import model_path
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.errors import ConfigurationError

    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise ConfigurationError(
            f"--tolerance {tolerance} is no error", advice="give a number such as 2e-4"
        )
    options = CheckOptions(
        model=model_path(path),
        reference=reference,
        profile=_profile(profile),
        n_workers=workers,
        kernel=wanted_kernel(),
        n_threads=default_threads(),
    )
    with LateBar() as bar:
        report = check_model(options, bar.tell)
    if as_json:
        print_json(_as_json(report, options, tolerance))
    else:
        print_values(_as_values(report, options, tolerance))
    if not report.comparison.holds(tolerance):
        if report.rounded:
            print(
                f"this model's weights are rounded ({', '.join(report.rounded)}): "
                "it meets a reference made with the same weights alone",
                file=sys.stderr,
            )
        raise typer.Exit(1)


def _profile(name: str) -> "Profile":
    from mobile_worker.arithmetic.profiles import Profile
    from p2pmoe.errors import ConfigurationError

    if name not in {"r32", "r16", "r8"}:
        raise ConfigurationError(
            f"unknown --profile {name!r}", advice="use r32, r16 or r8"
        )
    return Profile[name.upper()]


def _as_json(
    report: "CheckReport", options: "CheckOptions", tolerance: float
) -> dict[str, object]:
    found, scattering = report.comparison, report.scattering
    error = found.max_abs_error
    document: dict[str, object] = {
        "model": str(options.model),
        "reference": str(options.reference),
        "architecture": report.architecture,
        "kernel": report.kernel,
        "profile": options.profile.name.lower(),
        "max_abs_error": error if math.isfinite(error) else None,
        "worst_row": found.worst_row,
        "n_rows": found.n_rows,
        "tolerance": tolerance,
        "n_greedy": found.n_greedy,
        "n_greedy_equal": found.n_greedy_equal,
        "holds": found.holds(tolerance),
        "n_workers": options.n_workers,
    }
    if scattering is not None:
        document["calls_by_worker"] = dict(scattering.calls)
        document["n_calls_here"] = scattering.n_calls_here
        document["n_failovers"] = scattering.n_failovers
    return document


def _as_values(
    report: "CheckReport", options: "CheckOptions", tolerance: float
) -> dict[str, object]:
    found, scattering = report.comparison, report.scattering
    values: dict[str, object] = {
        "model": options.model,
        "architecture": report.architecture,
        "computed with": f"{report.kernel}, {options.profile.name.lower()}",
        "largest error": f"{found.max_abs_error:.3g}",
        "found at": f"position {found.worst_row} ({found.n_rows} compared)",
        "tolerance": f"{tolerance:.3g}",
        "equal greedy ids": f"{found.n_greedy_equal} of {found.n_greedy}",
    }
    if scattering is not None:
        for worker, n_calls in scattering.calls.items():
            values[f"calls of {worker}"] = n_calls
        values["calls computed here"] = scattering.n_calls_here
        values["calls asked again"] = scattering.n_failovers
    values["result"] = "the same" if found.holds(tolerance) else "DIFFERENT"
    return values
