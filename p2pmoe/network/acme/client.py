"""One certificate from an authority, by the `acme` package. Blocking: runs in a thread.

The account's key is made once and kept; a new account agrees to the authority's terms
of service, as --acme says. Each certificate has a new P-256 key. What the authority
says is shown to people, cut to 200 printable characters.
"""

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from p2pmoe.network.acme.errors import AcmeFailed
from p2pmoe.network.acme.settings import AcmeSettings

if TYPE_CHECKING:
    from acme import client, messages

__all__ = ["new_key_pem", "obtain"]

_TIMEOUT_S: Final = 30
_WITHIN: Final = dt.timedelta(seconds=180)
_MAX_SHOWN: Final = 200
_MAX_CHAIN_BYTES: Final = 256 * 1024
_REACH = "let port 80 of that name lead to this host, and keep it open for renewals"


def new_key_pem() -> bytes:
    """Make a P-256 key; PEM, secret."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def obtain(
    settings: AcmeSettings, account_key_pem: bytes, publish: Callable[[str, str], None]
) -> bytes:
    """Return PEM of a new key and its certificate chain, key first; it is secret.

    `publish(token, text)`: from now on the responder answers so.

    Raises:
        AcmeFailed: the authority cannot be reached, or gave no certificate.
        ModuleNotFoundError: the extra is not installed.
    """
    from acme import errors, messages  # noqa: PLC0415 - of the extra

    try:
        return _obtain(settings, account_key_pem, publish)
    except errors.ValidationError as exc:
        raise AcmeFailed(_why_invalid(exc.failed_authzrs), advice=_REACH) from exc
    except messages.Error as exc:
        reason = _shown(exc.detail or exc.typ or "")
        raise AcmeFailed(f"the authority refuses: {reason}") from exc
    except OSError as exc:  # requests' own errors are such, too
        raise AcmeFailed(
            f"the authority {settings.server} cannot be reached: {_reason(exc)}",
            advice="check the URL, the network, and the firewall between; an "
            "authority that is private needs --acme-ca",
        ) from exc
    except (AcmeFailed, ImportError):
        raise
    except Exception as exc:
        # Whatever the package makes of an authority's nonsense: the relay goes on.
        raise AcmeFailed(
            f"the authority {settings.server} answers what is no ACME: {_shown(exc)}",
            advice="check the URL of --acme-server",
        ) from exc


def _obtain(
    settings: AcmeSettings, account_key_pem: bytes, publish: Callable[[str, str], None]
) -> bytes:
    from acme import crypto_util  # noqa: PLC0415

    acme = _client(settings, account_key_pem)
    _log_in(acme, settings.email)
    key_pem = new_key_pem()
    order = acme.new_order(crypto_util.make_csr(key_pem, [*settings.domains]))
    for authorization in order.authorizations:
        _answer(acme, authorization, publish)
    deadline = dt.datetime.now() + _WITHIN  # noqa: DTZ005 - as the package compares it
    chain = acme.poll_and_finalize(order, deadline).fullchain_pem.encode("ascii")
    if len(chain) > _MAX_CHAIN_BYTES:
        raise AcmeFailed(f"the authority gave a chain of {len(chain)} bytes")
    return key_pem + chain


def _client(settings: AcmeSettings, account_key_pem: bytes) -> "client.ClientV2":
    from acme import client  # noqa: PLC0415
    from josepy.jwa import ES256  # noqa: PLC0415
    from josepy.jwk import JWKEC  # noqa: PLC0415

    net = client.ClientNetwork(
        JWKEC.load(account_key_pem),
        alg=ES256,
        # A path is taken too, and goes to requests, which says so.
        verify_ssl=str(settings.ca_file) if settings.ca_file else True,  # type: ignore[arg-type]
        user_agent="p2pmoe-relay",
        timeout=_TIMEOUT_S,
    )
    directory = client.ClientV2.get_directory(settings.server, net)
    return client.ClientV2(directory, net)


def _log_in(acme: "client.ClientV2", email: str) -> None:
    from acme import errors, messages  # noqa: PLC0415

    wanted = messages.NewRegistration.from_data(
        email=email or None, terms_of_service_agreed=True
    )
    try:
        acme.new_account(wanted)
    except errors.ConflictError as exc:  # there is one of this key
        acme.net.account = messages.RegistrationResource(
            uri=exc.location, body=messages.Registration()
        )


def _answer(
    acme: "client.ClientV2",
    authorization: "messages.AuthorizationResource",
    publish: Callable[[str, str], None],
) -> None:
    """Publish the answer to the HTTP-01 challenge, and have the authority ask."""
    from acme import challenges, messages  # noqa: PLC0415

    body = authorization.body
    if body.status == messages.STATUS_VALID:
        return  # proven lately
    for offered in body.challenges:
        if isinstance(offered.chall, challenges.HTTP01):
            response, text = offered.chall.response_and_validation(acme.net.key)
            publish(offered.chall.encode("token"), text)
            acme.answer_challenge(offered, response)
            return
    name = _shown(body.identifier.value)
    raise AcmeFailed(
        f"the authority does not ask over HTTP for {name}",
        advice="use a TLS front that proves the name by other means",
    )


def _why_invalid(failed: "list[messages.AuthorizationResource]") -> str:
    for authorization in failed:
        for challenge in authorization.body.challenges:
            if challenge.error is not None:
                name = _shown(authorization.body.identifier.value)
                reason = _shown(challenge.error.detail or challenge.error.typ)
                return f"the authority could not verify {name}: {reason}"
    return "the authority could not verify a name"


def _reason(exc: BaseException) -> str:
    """Say the innermost error: the packages around it wrap each other's text."""
    while (inner := exc.__cause__ or exc.__context__) is not None:
        exc = inner
    said = getattr(exc, "verify_message", None) or getattr(exc, "strerror", None)
    return _shown(said or exc).lower()


def _shown(what: object) -> str:
    text = " ".join(str(what).split())[:_MAX_SHOWN]
    return "".join(c if c.isprintable() else "?" for c in text)
