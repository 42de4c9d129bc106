"""The rules of setting a policy, and the operation that does.

Contract: as `ledger.settlement`. The first policy is signed when a store opens a ledger
that has none; a new one holds for what closes from then on and never for what is
closed. The same terms again are no new policy.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlalchemy import Connection, select

from ledger.desk import Desk
from ledger.office import Office
from ledger.params import Params
from ledger.policy import Policy, sign_policy, verify_policy
from ledger.schema_closing import policy

__all__ = [
    "POLICY_TERMS",
    "ensure_policy",
    "policy_set",
    "set_policy",
    "signed_policies",
]

POLICY_TERMS = (
    "fee_ppm",
    "holdback_ppm",
    "holdback_us",
    "dispute_us",
    "answer_us",
    "retention_us",
    "standby_uc",
)


def ensure_policy(desk: Desk, terms: Policy, sign: Callable[[bytes], bytes]) -> bool:
    """Sign and keep a ledger's first policy; False if it has one."""
    return desk.closings.policy is None and set_policy(desk, terms, sign)


def set_policy(desk: Desk, terms: Policy, sign: Callable[[bytes], bytes]) -> bool:
    """Sign a policy that holds from now on; False if it holds already."""
    holding = desk.closings.policy
    if holding is not None and replace(holding, since_us=0) == replace(
        terms, since_us=0
    ):
        return False
    if holding is not None:
        # Terms that come back within a microsecond would have the name they had.
        desk.now_us = max(desk.now_us, holding.since_us + 1)
    new = replace(terms, since_us=desk.now_us)
    desk.closings.set_policy(new, sign_policy(new.pack(), sign), desk.now_us)
    return True


def signed_policies(connection: Connection, ledger: bytes) -> list[Policy]:
    """Return all policies, the newest last, each with the ledger's signature checked.

    Raises:
        SignatureRefused, FormatRefused: one of them is not the ledger's.
    """
    rows = connection.execute(select(policy).order_by(policy.c.seq))
    return [verify_policy(row.raw, row.signature, ledger) for row in rows]


def policy_set(office: Office, params: Mapping[str, object]) -> Mapping[str, object]:
    """Change the terms that are named, for what closes from now on.

    Args:
        office: where it works.
        params: any of POLICY_TERMS as integers; `commit` to do it.

    Raises:
        OperationRefused, FormatRefused: terms that nobody knows or that make no sense.
    """
    holding = office.desk.closings.policy or Policy()
    reader = Params(params)
    commit = reader.flag("commit")
    changes = {name: reader.whole(name) for name in POLICY_TERMS if name in params}
    reader.done()
    terms = replace(holding, **changes)
    is_new = replace(terms, since_us=0) != replace(holding, since_us=0)
    if commit:
        set_policy(office.desk, terms, office.sign)
    return {
        "committed": commit,
        "changed": is_new,
        **{name: getattr(terms, name) for name in POLICY_TERMS},
    }
