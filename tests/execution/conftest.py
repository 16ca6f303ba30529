"""The batches of the tests of leases."""

from tests.leases.conftest import new_batch

__all__ = ["new_batch"]
