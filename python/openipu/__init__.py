"""openipu: libipu for Python, a thin layer over its C functions.

    net = openipu.Network.create()          build a network value by value
    openipu.library.lib()                   the C functions themselves
"""

from .error import Error
from .library import lib
from .network import Network, Value, op_info

__all__ = ["Error", "Network", "Value", "lib", "op_info"]


def __getattr__(name: str) -> object:
    if name in ("Module", "Executor"):
        from . import executor
        return getattr(executor, name)
    raise AttributeError(f"module 'openipu' has no attribute {name!r}")
