"""The relay's certificate by ACME: there before it starts, renewed while it runs.

Key and chain lie in one file of mode 0600, which is replaced whole: the relay, which
looks at its files now and then, never sees a key without its certificate. A renewal
that fails is said on one line and tried again; the certificate in use stays.
"""

import datetime as dt
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Final

import trio

from mobile_worker.clock import Clock
from p2pmoe.network.acme.client import new_key_pem, obtain
from p2pmoe.network.acme.errors import AcmeFailed
from p2pmoe.network.acme.renewal import is_due, read_certificate_file, retry_after_s
from p2pmoe.network.acme.responder import respond
from p2pmoe.network.acme.settings import AcmeSettings
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import read_bounded, replace_file
from relay.tls import TlsFiles

__all__ = ["AcmeCertificate", "run_acme"]

_LOG = logging.getLogger("p2pmoe.network.acme")
_LOOK_S: Final = 3600.0
_MAX_BYTES: Final = 1024 * 1024
_random: Final = SystemRandom().random

Obtain = Callable[[AcmeSettings, bytes, Callable[[str, str], None]], bytes]


@dataclass(slots=True, kw_only=True)
class AcmeCertificate:
    """A certificate in a folder. `obtain` fetches one; `answers` is the responder's."""

    settings: AcmeSettings
    folder: Path
    clock: Clock
    obtain: Obtain = obtain
    answers: dict[str, str] = field(default_factory=dict)
    lot: float = field(default_factory=_random)

    @property
    def file(self) -> Path:
        """Key and chain, in one."""
        return self.folder / self.settings.server_folder / "certificate.pem"

    @property
    def is_due(self) -> bool:
        """Whether there is none, one for other names, or one past most of its life."""
        held = read_certificate_file(read_bounded(self.file, _MAX_BYTES) or b"")
        return is_due(held, self.settings.domains, self._now(), self.lot)

    @property
    def is_usable(self) -> bool:
        """Whether there is one for these names that has not ended."""
        held = read_certificate_file(read_bounded(self.file, _MAX_BYTES) or b"")
        return (
            held is not None
            and held.domains == frozenset(self.settings.domains)
            and self._now() < held.not_after
        )

    async def fetch(self) -> None:
        """Fetch a certificate and put it in place.

        Raises:
            AcmeFailed: there is none from the authority.
            FolderUnusable: a file cannot be read or written.
        """
        account = self._account_key()
        work = functools.partial(
            self.obtain, self.settings, account, self.answers.__setitem__
        )
        try:
            # Left behind if we are cancelled: its own time-outs end it.
            pem = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        finally:
            self.answers.clear()
        if read_certificate_file(pem) is None:
            raise AcmeFailed("the authority gave a certificate of another key")
        replace_file(self.file, pem)

    async def keep(self) -> None:
        """Renew it when it is due, until cancelled."""
        n_failures = 0
        while True:
            wait_s = retry_after_s(n_failures, self.lot) if n_failures else _LOOK_S
            await trio.sleep(wait_s)
            if not self.is_due:
                n_failures = 0
                continue
            try:
                await self.fetch()
            except (AcmeFailed, FolderUnusable) as exc:
                n_failures += 1
                _LOG.warning("the certificate was not renewed: %s; %s", exc, exc.advice)
            else:
                n_failures = 0
                _LOG.info("a new certificate for %s", ", ".join(self.settings.domains))

    def _account_key(self) -> bytes:
        path = self.file.with_name("account.key")
        found = read_bounded(path, _MAX_BYTES)
        if found is not None:
            return found
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            reason = (exc.strerror or str(exc)).lower()
            raise FolderUnusable(f"cannot use {path.parent}: {reason}") from exc
        made = new_key_pem()
        replace_file(path, made)
        return made

    def _now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.clock.wall_us() / 1e6, tz=dt.UTC)


async def run_acme(
    certificate: AcmeCertificate,
    *,
    task_status: trio.TaskStatus[TlsFiles] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Have a certificate, tell its files, then renew it until cancelled.

    Raises:
        AcmeFailed: there is no certificate yet, and none came.
        ListenError: the port for the authority's questions cannot be opened.
        FolderUnusable: a file cannot be read or written.
    """
    settings = certificate.settings
    async with trio.open_nursery() as nursery:
        await nursery.start(respond, settings.host, settings.port, certificate.answers)
        if certificate.is_due:
            names = ", ".join(settings.domains)
            _LOG.info("fetching a certificate for %s", names)
            try:
                await certificate.fetch()
            except AcmeFailed as exc:
                if not certificate.is_usable:
                    raise
                _LOG.warning("the certificate was not renewed: %s; %s", exc, exc.advice)
        task_status.started(
            TlsFiles(certificate=certificate.file, key=certificate.file)
        )
        await certificate.keep()
