"""p2pmoe: a Mixture-of-Experts model spread over other people's machines.

This package composes the other three (mobile_worker, relay, ledger) into the
backbone, the market, the API and the command line. See docs/explanation.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
