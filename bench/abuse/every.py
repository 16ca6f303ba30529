"""All cases: importing this registers them."""

from bench.abuse import (  # noqa: F401
    addresses,
    agents,
    bodies,
    bursts,
    chains,
    credentials,
    crowds,
    engine,
    expressions,
    families,
    forgeries,
    fuzzing,
    http,
    logins,
    reading,
    saves,
    starts,
)
from bench.abuse.cases import CASES

__all__ = ["CASES"]
