"""Who may call: with keys, whoever has one; without, this machine alone.

Without keys a request whose Host is another name is refused, so that no web page can
reach the API by a name that it controls.
"""

from http import HTTPStatus

from starlette.requests import Request

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.keys import ApiKeys

__all__ = ["admit"]

_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OPEN_PAGES = frozenset({"/livez", "/readyz"})


def admit(request: Request, keys: ApiKeys | None) -> str:
    """Return who calls: the name of a key, else the remote host.

    Raises:
        ApiRefusal: No right key, or a Host that is not this machine.
    """
    remote = request.client.host if request.client is not None else ""
    if keys is None:
        _admit_local(request)
        return remote
    if request.url.path in _OPEN_PAGES:
        return remote
    return _admit_key(request, keys)


def _admit_local(request: Request) -> None:
    host = request.headers.get("host", "")
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.split(":")[0]
    if name.lower() not in _LOCAL_HOSTS:
        raise ApiRefusal(
            f"host {host[:80]!r} is not this machine; serve with an API key",
            code="host_not_allowed",
            status=HTTPStatus.FORBIDDEN,
        )


def _admit_key(request: Request, keys: ApiKeys) -> str:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    name = keys.client(given.strip())
    if scheme.lower() != "bearer" or name is None:
        raise ApiRefusal(
            "the API key is missing or wrong",
            code="invalid_api_key",
            status=HTTPStatus.UNAUTHORIZED,
            headers={"www-authenticate": "Bearer"},
        )
    return name
