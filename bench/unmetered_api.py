"""`vedette api` with unlimited rates for sources, which `bench.bulk` replaces by its own."""

from __future__ import annotations

import cli
from providers.registry import KINDS
from providers.sources.base import RemoteSource

if __name__ == "__main__":
    for kind in KINDS.values():
        for source in kind.sources:
            if isinstance(source, RemoteSource):
                object.__setattr__(source.spec, "rate", None)
    cli.main()
