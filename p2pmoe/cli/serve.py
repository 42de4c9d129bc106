"""`p2pmoe serve`: an OpenAI-compatible API on a model larger than this machine.

A data folder serves one process at a time. The phase and every loss go to stderr.
SIGTERM drains and ends with 0, an interrupt drains and ends with 130, a second signal
ends at once.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from p2pmoe.cli.authority import CaFile, use_authorities
from p2pmoe.cli.serve_options import (
    AuditRows,
    Batch,
    Context,
    Coverage,
    Data,
    Disk,
    DiskCache,
    DropBound,
    InviteFile,
    KeyFile,
    Lan,
    Listen,
    ManifestUrl,
    Missing,
    Model,
    PreTokenizer,
    Queue,
    Ram,
    ReadyFile,
    Relay,
    RequireEvaluation,
    ResultProfile,
    Threads,
)
from p2pmoe.cli.speculating import (
    Draft,
    DraftTokens,
    Prefetch,
    Speculate,
    speculation_wish,
)

if TYPE_CHECKING:
    import trio

    from p2pmoe.backbone.service import Service, Started
    from p2pmoe.config import (
        DiskAccess,
        DiskPolicy,
        MissingPolicy,
        NetworkAccess,
        ServeConfig,
        Tuning,
    )

__all__ = ["register", "run_to_the_end"]

_ARENAS = 1  # of the C library, for all threads
# One thread: numpy's products are small here, and others would stand in passes' way.
_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("serve")(_serve)


def _serve(
    model: Model = None,
    manifest: ManifestUrl = None,
    relay: Relay = None,
    invite: InviteFile = None,
    ca: CaFile = None,
    lan: Lan = False,
    ram: Ram = None,
    disk: Disk = None,
    disk_cache: DiskCache = None,
    missing: Missing = "wait",
    drop_bound: DropBound = 0.0,
    batch: Batch = 16,
    queue: Queue = 64,
    speculate: Speculate = "auto",
    draft: Draft = None,
    draft_tokens: DraftTokens = 16,
    prefetch: Prefetch = "auto",
    profile: ResultProfile = "r16",
    listen: Listen = "127.0.0.1:8080",
    data: Data = None,
    context: Context = 0,
    wait_coverage: Coverage = 1.0,
    threads: Threads = None,
    ready_file: ReadyFile = None,
    pre_tokenizer: PreTokenizer = None,
    api_key_file: KeyFile = None,
    require_evaluation: RequireEvaluation = False,
    audit_rows: AuditRows = None,
) -> None:
    """Serve a model whose experts may live on other machines."""
    from p2pmoe.config import ServeConfig

    _prepare(ca)
    policy, access = _disk(disk or ("off" if manifest else "fallback"))
    config = ServeConfig(
        model=_model(model, manifest, _folder(data)),
        data=_folder(data),
        access=_access(relay, invite, lan=lan),
        manifest=manifest,
        ram_bytes=_size(ram, "--ram"),
        disk=policy,
        disk_access=access,
        disk_cache_bytes=_size(disk_cache, "--disk-cache"),
        missing=_missing(missing),
        drop_bound=drop_bound,
        profile=profile,
        listen=listen,
        n_context=context,
        wait_coverage=wait_coverage,
        ready_file=ready_file,
        pre_tokenizer=pre_tokenizer,
        api_key=_key(api_key_file),
        kernel=_kernel(),
        n_threads=_threads(threads),
        require_evaluation=require_evaluation,
        speculation=speculation_wish(speculate, draft, draft_tokens, prefetch),
        tuning=_tuning(batch, queue, audit_rows),
    )
    run_to_the_end(config)


def _tuning(batch: int, queue: int, audit_rows: str | None) -> "Tuning":
    from p2pmoe.config import Tuning

    return Tuning(
        max_batch=batch,
        max_queued_requests=queue,
        audit_bytes=_size(audit_rows, "--audit-rows"),
    )


def _prepare(ca: Path | None) -> None:
    """Set the environment before numpy is imported; see `_BLAS_THREADS`."""
    import os

    for name in _BLAS_THREADS:
        os.environ.setdefault(name, "1")
    use_authorities(ca)


def run_to_the_end(config: "ServeConfig") -> None:
    """Serve until a signal; KeyboardInterrupt if it was an interrupt."""
    import trio

    from mobile_worker.clock import SystemClock
    from p2pmoe.backbone.allocator import limit_arenas
    from p2pmoe.backbone.service import Service
    from p2pmoe.cli.fetch_bar import FetchBar
    from p2pmoe.network.running import log_to_stderr

    log_to_stderr()
    limit_arenas(_ARENAS)
    bar = FetchBar()
    try:
        was_interrupted = trio.run(
            _run, Service(config, SystemClock(), bar.tell), config
        )
    finally:
        bar.close()
    if was_interrupted:
        raise KeyboardInterrupt


async def _run(service: "Service", config: "ServeConfig") -> bool:
    """Run until a signal; True if it was an interrupt."""
    import os
    import signal

    import trio

    from p2pmoe.network.running import write_ready_file

    stop = trio.Event()
    signals: list[int] = []
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as arriving:
        async with trio.open_nursery() as nursery:

            async def heed() -> None:
                async for number in arriving:
                    if stop.is_set():
                        nursery.cancel_scope.cancel()
                    signals.append(number)
                    stop.set()

            nursery.start_soon(heed)

            async def serve(*, task_status: "trio.TaskStatus[Started]") -> None:
                await service.run(stop, task_status=task_status)
                nursery.cancel_scope.cancel()

            started = await nursery.start(serve)
            report = {"listen": [started.host, started.port], "pid": os.getpid()}
            write_ready_file(config.ready_file, report)
    return signal.SIGINT in signals


def _access(
    relay: str | None, invite: Path | None, *, lan: bool
) -> "NetworkAccess | None":
    """Return the network to join, None for none: of the invite, or an open relay's."""
    import os

    from p2pmoe.cli.extras import check_extra
    from p2pmoe.config import NetworkAccess
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.network.invite import INVITE_VARIABLE, find_invite
    from relay.endpoint import parse_endpoint

    named = invite is not None or bool(os.environ.get(INVITE_VARIABLE))
    if relay is None and not named:
        return None
    if lan:
        check_extra("lan")
    endpoint = parse_endpoint(relay) if relay is not None else None
    if not named and endpoint is not None:
        return NetworkAccess(endpoint=endpoint, lan=lan)
    member = find_invite(invite, os.environ)
    known = (None, *(each.relay_id for each in member.relays))
    if endpoint and endpoint.relay_id not in known:
        raise ConfigurationError(
            f"the URL's relay is not the one of the invite ({member.relay.url})",
            advice="give either --relay or --invite",
        )
    return NetworkAccess(
        endpoint=member.relays[0],
        further=tuple(member.relays[1:]),
        token=member.token,
        network=member.network,
        lan=lan,
    )


def _folder(data: Path | None) -> Path:
    from p2pmoe.cli.data_folders import backbone_folder

    return data or backbone_folder()


def _key(api_key_file: str | None) -> str | None:
    from p2pmoe.cli.api_key import read_api_key

    return read_api_key(api_key_file) or None


def _kernel() -> str | None:
    from p2pmoe.cli.computing import wanted_kernel

    return wanted_kernel()


def _threads(threads: int | None) -> int:
    from p2pmoe.cli.computing import default_threads

    return default_threads() if threads is None else threads


def _model(model: str | None, manifest: str | None, folder: Path) -> Path:
    """Return the model's path; with a manifest, where what it names is kept."""
    from p2pmoe.cli.model_path import model_path
    from p2pmoe.errors import ConfigurationError

    if (model is None) == (manifest is None):
        raise ConfigurationError(
            "neither a model nor a manifest is named"
            if model is None
            else f"both the model {model!r} and a manifest are named",
            advice="name a model file, a folder or `pocket`, or give --manifest URL",
        )
    return folder / "base" if model is None else model_path(model)


def _disk(disk: str) -> "tuple[DiskPolicy, DiskAccess]":
    """Return what `--disk` says: a policy, a way of access, or both joined by +."""
    from p2pmoe.config import DiskAccess, DiskPolicy
    from p2pmoe.errors import ConfigurationError

    policy, _, way = (
        "fallback+mmap".partition("+") if disk == "mmap" else disk.partition("+")
    )
    try:
        return DiskPolicy(policy), DiskAccess(way or "read")
    except ValueError as error:
        raise ConfigurationError(
            f"unknown --disk {disk!r}",
            advice="use off, fallback, tier, mmap or tier+mmap",
        ) from error


def _size(text: str | None, option: str) -> int | None:
    """Return the bytes that an option asks for, None if it was not given."""
    from p2pmoe.cli.sizes import parse_size

    return None if text is None else parse_size(text, option=option)


def _missing(missing: str) -> "MissingPolicy":
    from p2pmoe.config import MissingPolicy
    from p2pmoe.errors import ConfigurationError

    try:
        return MissingPolicy(missing)
    except ValueError as error:
        raise ConfigurationError(
            f"unknown --missing {missing!r}", advice="use wait, fail or drop"
        ) from error
