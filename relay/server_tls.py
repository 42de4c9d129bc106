"""The server's TLS while it runs: renewed when its files change, never half.

A certificate lives some weeks, a relay longer. When one of the two files has changed,
both are read into a context of its own, and only if they fit each other new handshakes
get that context; connections that are open keep the one they began with. Files that do
not fit (yet: whoever renews them writes one after the other) change nothing and are
said once.
"""

import logging
from pathlib import Path
from typing import Final

import trio

from relay.errors import CertificateError
from relay.keys import SigningKey
from relay.tls import SelfSigned, TlsFiles, server_context

__all__ = ["ServerTls"]

_LOG = logging.getLogger("p2pmoe.relay")
_LOOK_S: Final = 10.0

_Stamp = tuple[int, int, int, int]  # device, inode, size and time of last change


class ServerTls:
    """The context for the next handshake, and what it was made of.

    Raises:
        CertificateError: the certificate or its key cannot be used, at first.
    """

    def __init__(self, tls: TlsFiles | SelfSigned, identity: SigningKey) -> None:
        self._tls = tls
        self._identity = identity
        self._seen = self._stamps()
        self._said = ""
        self.context = server_context(tls, identity)

    def renew(self) -> bool:
        """Read the files anew if they changed; tell whether they did.

        Raises:
            CertificateError: they cannot be used; the context in use stays.
        """
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        context = server_context(self._tls, self._identity)
        if self._stamps() != stamps:
            raise CertificateError("the certificate changed while it was read")
        self._seen = stamps
        self.context = context
        return True

    async def keep_renewed(self) -> None:
        """Look at the files now and then, for as long as the relay runs."""
        while True:
            await trio.sleep(_LOOK_S)
            try:
                # No thread: two looks at a folder, a millisecond when it has changed.
                if self.renew():
                    self._said = ""
                    _LOG.info("the certificate was renewed")
            except CertificateError as exc:
                if str(exc) != self._said:
                    self._said = str(exc)
                    _LOG.warning("the certificate was not renewed: %s", exc)

    def _stamps(self) -> tuple[_Stamp | None, ...]:
        if isinstance(self._tls, SelfSigned):
            return ()
        return _stamp(self._tls.certificate), _stamp(self._tls.key)


def _stamp(path: Path) -> _Stamp | None:
    """Return what changes when a file does; of a link, what it leads to."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
