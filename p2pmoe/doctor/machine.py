"""What this host is like: what computes, disk, open files, the port of a relay.

Nothing is changed: a file is written into the data folder and gone at once, a port is
opened and closed.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.select import choose_kernel
from p2pmoe.doctor.findings import Finding, Verdict, fault_of
from relay.errors import ListenError
from relay.listening import open_listeners

__all__ = ["RELAY_PORT", "disk", "file_limit", "kernel", "open_files", "relay_port"]

RELAY_PORT: Final = 443
_LITTLE_DISK_BYTES: Final = 2 << 30  # what `contribute` uses by default
_NO_DISK_BYTES: Final = 100 << 20
_FEW_FILES: Final = 256
_RELAY_FILES: Final = 5_000  # idle peers that one relay is to hold


def kernel(wanted: str | None) -> Finding:
    """Test what would compute here; `wanted` is the kernel that a variable names."""
    try:
        choice = choose_kernel(kernel_candidates(), wanted)
    except KernelUnavailable as error:
        return fault_of("kernel", error)
    if choice.name == "numpy":
        return Finding(
            check="kernel",
            verdict=Verdict.WARNING,
            text="numpy alone computes here, which is slow",
            advice="install p2pmoe where wasmtime has a wheel, or with a C compiler",
        )
    return Finding(check="kernel", verdict=Verdict.OK, text=choice.line)


def disk(folder: Path) -> Finding:
    """Look whether the data folder, or what it would be made in, takes files."""
    place = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            free = shutil.disk_usage(place).free
    except OSError as error:
        return Finding(
            check="disk",
            verdict=Verdict.FAULT,
            text=f"no file can be written in {place}: "
            f"{(error.strerror or str(error)).lower()}",
            advice="make it writable, or name another folder with --data",
        )
    text = f"{free / 1e9:.1f} GB free at {place}"
    if free < _NO_DISK_BYTES:
        advice = "free some space, or name another folder with --data"
        return Finding(check="disk", verdict=Verdict.FAULT, text=text, advice=advice)
    if free < _LITTLE_DISK_BYTES:
        return Finding(
            check="disk",
            verdict=Verdict.WARNING,
            text=text,
            advice="contribute with a smaller --disk, or free some space",
        )
    return Finding(check="disk", verdict=Verdict.OK, text=text)


def open_files(limit: int | None) -> Finding:
    """Judge how many files, and so connections, a process may have open."""
    if limit is None or limit >= _RELAY_FILES:
        text = "no limit" if limit is None else f"a process may open {limit}"
        return Finding(check="files", verdict=Verdict.OK, text=text)
    return Finding(
        check="files",
        verdict=Verdict.NOTE if limit >= _FEW_FILES else Verdict.WARNING,
        text=f"a process may open {limit} files, so a relay holds fewer peers",
        advice="for a relay raise it: `ulimit -Hn`, or LimitNOFILE= in its unit",
    )


async def relay_port(port: int = RELAY_PORT) -> Finding:
    """Look whether a relay could listen on its default port."""
    try:
        listeners = await open_listeners(None, port)
    except ListenError as error:
        return Finding(
            check="port",
            verdict=Verdict.NOTE,
            text=f"{error}: no relay can listen there as it is",
            advice=f"only a relay needs it: {error.advice or 'see the message'}",
        )
    for listener in listeners:
        listener.close()
    text = f"a relay may listen on port {port}"
    return Finding(check="port", verdict=Verdict.OK, text=text)


def file_limit() -> int | None:
    """Return how many files a relay may open, which raises its own limit; or None."""
    if os.name == "nt":
        return None
    import resource  # noqa: PLC0415 - there is none on Windows

    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if hard == resource.RLIM_INFINITY else hard
