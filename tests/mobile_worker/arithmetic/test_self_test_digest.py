import subprocess
import sys

from mobile_worker.arithmetic import self_test
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST


def test_the_self_test_compares_with_this_digest() -> None:
    assert len(SELF_TEST_DIGEST) == 32
    assert self_test.SELF_TEST_DIGEST is SELF_TEST_DIGEST


def test_the_digest_is_known_without_numpy() -> None:
    code = (
        "import sys, mobile_worker.arithmetic.self_test_digest; "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
