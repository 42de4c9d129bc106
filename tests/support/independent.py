"""The auditor's script as a module, and the ids it asks for."""

import importlib.util
import sys
from pathlib import Path

from tests.support.ledger_world import World

__all__ = ["SCRIPT", "ids_of", "independent"]

SCRIPT = Path(__file__).parents[2] / "docs" / "auditor" / "independent_verifier.py"
_SPEC = importlib.util.spec_from_file_location("independent_verifier", SCRIPT)
independent = importlib.util.module_from_spec(_SPEC)
sys.modules["independent_verifier"] = independent
_SPEC.loader.exec_module(independent)


def ids_of(world: World):
    owner = world.identity
    return independent.Ids(owner.network, owner.ledger, owner.market)
