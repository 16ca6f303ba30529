"""All cases: importing this registers them."""

from bench.abuse import (  # noqa: F401
    addresses,
    bodies,
    credentials,
    engine,
    expressions,
    fuzzing,
    http,
    logins,
    starts,
)
