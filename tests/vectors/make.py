"""Write all golden bytes anew: `python -m tests.vectors.make` (or `make vectors`).

Runs each `make_*.py` beside this file as a program of its own.
"""

import runpy
from pathlib import Path

if __name__ == "__main__":
    for path in sorted(Path(__file__).parent.glob("make_*.py")):
        runpy.run_module(f"tests.vectors.{path.stem}", run_name="__main__")
