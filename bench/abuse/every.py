"""All cases: importing this imports the modules beside it, which register them."""

from importlib import import_module
from pkgutil import iter_modules

from bench import abuse
from bench.abuse.cases import CASES

__all__ = ["CASES"]

for _module in iter_modules(abuse.__path__, "bench.abuse."):
    if _module.name not in (__name__, "bench.abuse.__main__"):
        import_module(_module.name)
