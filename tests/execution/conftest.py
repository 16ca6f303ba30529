"""The runs of the tests of claims."""

from tests.claims.conftest import new_runs

__all__ = ["new_runs"]
