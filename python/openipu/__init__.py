"""openipu: libipu for Python, a thin layer over its C functions.

    net = openipu.Network.create()          build a network value by value
    openipu.Trainer(module, data)           a whole training
    openipu.Info()                          the virtual IPUs of this host and their attributes
    openipu.library.lib()                   the C functions themselves
"""

import importlib

from .error import Error
from .ipuinfo import Info
from .library import lib

#: Imported when they are first asked for: they need numpy, and looking at devices does not.
_LATER = {"Network": "network", "Value": "network", "op_info": "network", "Module": "executor", "Executor": "executor",
          "Dataset": "dataset", "Summary": "summary", "Trainer": "trainer"}

__all__ = ["Error", "Info", "Network", "Value", "lib", "op_info"]


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module 'openipu' has no attribute {name!r}")
