"""`p2pmoe ledger policy show|set`: the operator's fee, holdback and windows, signed.

`set` shows what would hold and does nothing without `--commit`. A new policy holds for
vouchers that close from then on; what is closed keeps the one it closed under.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, open_reader

__all__ = ["add_policy_group"]

_COLUMNS = (
    "since",
    "fee_ppm",
    "holdback_ppm",
    "holdback_hours",
    "dispute_hours",
    "answer_hours",
    "retention_hours",
    "standby",
    "hash",
)
_HOUR_US = 3_600_000_000
_SPANS = ("holdback_us", "dispute_us", "answer_us", "retention_us")
_MAX_HOURS = 3660 * 24
_PPM = 1_000_000


def _parts(help_text: str) -> object:
    return typer.Option(min=0, max=_PPM, metavar="PPM", help=help_text)


def _hours(help_text: str) -> object:
    return typer.Option(min=0, max=_MAX_HOURS, metavar="HOURS", help=help_text)


FeePpm = Annotated[
    int | None, _parts("Your part of what is earned, in parts per million.")
]
HoldbackPpm = Annotated[
    int | None, _parts("Kept back of the rest for a time, in parts per million.")
]
HoldbackHours = Annotated[
    int | None, _hours("How long after its close a voucher's holdback is kept.")
]
DisputeHours = Annotated[
    int | None, _hours("How long after its close a voucher may be disputed.")
]
AnswerHours = Annotated[int | None, _hours("How long a dispute may stay unanswered.")]
RetentionHours = Annotated[
    int | None, _hours("How long after a voucher's close its leaves are kept.")
]
StandbyCredits = Annotated[
    str | None,
    typer.Option(
        "--standby",
        metavar="CREDITS",
        help="The most that the held replicas of a model get for one epoch.",
    ),
]
Commit = Annotated[
    bool, typer.Option("--commit", help="Do it; else only show what would hold.")
]


def add_policy_group(group: typer.Typer) -> None:
    """Add the commands to the ledger's group."""
    policy = typer.Typer(
        help="The operator's terms: fee, holdback, dispute window.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    policy.command("show")(_show)
    policy.command("set")(_set)
    group.add_typer(policy, name="policy")


def _show(data: Data = None, as_json: AsJson = False) -> None:
    """Print all signed policies, the newest last: it holds now."""
    from ledger.policies import signed_policies
    from p2pmoe.cli.tables import print_json, print_rows

    reader = open_reader(data)
    with reader.session() as connection:
        policies = signed_policies(connection, reader.identity.ledger)
    rows: list[Mapping[str, object]] = []
    for terms in policies:
        spans = {name: getattr(terms, name) for name in _SPANS}
        rows.append(
            _row(terms.fee_ppm, terms.holdback_ppm, spans)
            | _standby(terms.standby_uc)
            | {"since": _utc(terms.since_us), "hash": terms.content_hash.hex()}
        )
    if as_json:
        print_json({"policies": rows})
    else:
        print_rows(_COLUMNS, rows, "Policies")


def _set(
    fee_ppm: FeePpm = None,
    holdback_ppm: HoldbackPpm = None,
    holdback_hours: HoldbackHours = None,
    dispute_hours: DisputeHours = None,
    answer_hours: AnswerHours = None,
    retention_hours: RetentionHours = None,
    standby: StandbyCredits = None,
    commit: Commit = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Sign new terms for what closes from now on; those not named stay."""
    hours = (holdback_hours, dispute_hours, answer_hours, retention_hours)
    changes = {"fee_ppm": fee_ppm, "holdback_ppm": holdback_ppm} | {
        name: None if value is None else value * _HOUR_US
        for name, value in zip(_SPANS, hours, strict=True)
    }
    if standby is not None:
        changes["standby_uc"] = _credits(standby)
    given = {name: value for name, value in changes.items() if value is not None}
    _report(_operated(data, {**given, "commit": commit}), as_json=as_json)


def _operated(data: Path | None, params: Mapping[str, object]) -> Mapping[str, object]:
    from p2pmoe.cli.ledger_operate import operate

    return operate(data, "policy.set", params)


def _report(answer: Mapping[str, object], *, as_json: bool) -> None:
    from p2pmoe.cli.tables import print_json, print_rows

    spans = {name: answer[name] for name in _SPANS}
    row = _row(answer["fee_ppm"], answer["holdback_ppm"], spans)
    row |= _standby(answer["standby_uc"])
    if as_json:
        flags = {name: answer[name] for name in ("committed", "changed")}
        print_json({**flags, **row})
        return
    print_rows([name for name in _COLUMNS if name in row], [row], "Policy")
    if not answer["changed"]:
        said = "These terms hold already."
    elif answer["committed"]:
        said = "Signed; it holds for what closes from now on."
    else:
        said = "Nothing was changed: add --commit to sign it."
    typer.echo(said, err=True)


def _row(
    fee_ppm: object, holdback_ppm: object, spans: Mapping[str, object]
) -> dict[str, object]:
    row: dict[str, object] = {"fee_ppm": fee_ppm, "holdback_ppm": holdback_ppm}
    for name, span_us in spans.items():
        if isinstance(span_us, int):
            row |= {
                name.replace("_us", "_hours"): span_us // _HOUR_US,
                name: span_us,
            }
    return row


def _standby(standby_uc: object) -> dict[str, object]:
    from ledger.amounts import format_credits

    if not isinstance(standby_uc, int):
        return {}
    return {"standby_uc": standby_uc, "standby": format_credits(standby_uc)}


def _credits(text: str) -> int:
    from ledger.amounts import parse_credits

    return parse_credits(text)


def _utc(instant_us: int) -> str:
    from ledger.periods import format_us

    return format_us(instant_us)
