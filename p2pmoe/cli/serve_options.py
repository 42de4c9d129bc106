"""The options of `p2pmoe serve`, in the order they are listed."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AuditRows",
    "Batch",
    "Context",
    "Coverage",
    "Data",
    "Disk",
    "DiskCache",
    "DropBound",
    "InviteFile",
    "KeyFile",
    "Lan",
    "Listen",
    "ManifestUrl",
    "Missing",
    "Model",
    "PreTokenizer",
    "Queue",
    "Ram",
    "ReadyFile",
    "Relay",
    "RequireEvaluation",
    "ResultProfile",
    "Threads",
]

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL]",
        help="A GGUF file, a safetensors folder, or `pocket`.",
        show_default=False,
    ),
]
ManifestUrl = Annotated[
    str | None,
    typer.Option(
        "--manifest",
        metavar="URL[#SHA256]",
        help="Instead of MODEL: fetch all but the experts as this manifest says.",
    ),
]
Relay = Annotated[
    str | None,
    typer.Option(metavar="URL", help="wss://HOST/relay[#RELAY_ID] of an open network."),
]
InviteFile = Annotated[
    Path | None,
    typer.Option("--invite", metavar="FILE", help="Invite file; else P2PMOE_INVITE."),
]
Ram = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Memory for model and caches, like 8G; else all experts."
    ),
]
Disk = Annotated[
    str | None,
    typer.Option(
        metavar="POLICY",
        help="Experts from disk: off, fallback (no worker answers), tier (if faster); "
        "mmap is fallback, mapped by a child process; so is tier+mmap. [default: "
        "fallback]",
    ),
]
DiskCache = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="How much of --ram is for experts on their way from the disk.",
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        metavar="POLICY",
        help="If nobody can compute an expert: wait, fail, or drop (go on without).",
    ),
]
DropBound = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="With --missing drop: how much of a token's routed weight may be missing.",
    ),
]
Batch = Annotated[
    int, typer.Option(metavar="N", help="How many requests decode together at most.")
]
Queue = Annotated[
    int, typer.Option(metavar="N", help="How many requests may wait; more get 429.")
]
RequireEvaluation = Annotated[
    bool,
    typer.Option(
        "--require-evaluation/--no-require-evaluation",
        help="Serve only if `eval` has a run of this setting.",
    ),
]
ResultProfile = Annotated[
    str, typer.Option(metavar="PROFILE", help="r16 | r8 | r32: coding of results.")
]
Listen = Annotated[
    str, typer.Option(metavar="ADDRESS", help="HOST:PORT of the API; port 0 is any.")
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder for key, use and vouchers."),
]
Context = Annotated[
    int,
    typer.Option(
        metavar="N", help="Tokens a conversation may have; 0 is the model's limit."
    ),
]
Coverage = Annotated[
    float,
    typer.Option(
        metavar="SHARE", help="Share of experts that must be held before it is ready."
    ),
]
ReadyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the API's address here once it listens."),
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Threads that share an expert (native kernel), 1 to 256; else the cores, "
        "at most 8.",
    ),
]
Lan = Annotated[
    bool, typer.Option("--lan", help="Find workers on the local network too.")
]
PreTokenizer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Use this pre-tokenizer whatever the file says."),
]
KeyFile = Annotated[
    str | None,
    typer.Option("--api-key-file", metavar="FILE", help="File with the API's key."),
]
AuditRows = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory for rows that the ledger may ask to see again. [default: 64M, or "
        "a 32nd of --ram]",
        show_default=False,
    ),
]
