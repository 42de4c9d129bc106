import subprocess
import sys

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind


def test_the_numbers_are_the_wires() -> None:
    assert [kind.value for kind in ActivationKind] == [0, 1]
    assert Activation(kind=ActivationKind.SWIGLU).limit == 7.0


def test_a_manifest_is_read_without_numpy() -> None:
    code = "import sys, mobile_worker.shards.manifest; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
