from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])

class _Declared(TypedDict):
    function: Callable[..., Any]
    signature: tuple[Any, ...]

def signature(*arguments: Mapping[str, Any]) -> Callable[[_Method], _Method]: ...

class FunctionRegistry(type):
    FUNCTION_TABLE: dict[str, _Declared]
