"""openipu: libipu for Python, a thin layer over its C functions, and what the front ends of frameworks share.

    net = openipu.Network.create()          build a network value by value
    openipu.Trainer(module, data)           a whole training
    openipu.Info()                          the virtual IPUs of this host and their attributes
    openipu.library.lib()                   the C functions themselves

Nothing is imported before it is asked for: openipu.hook comes with every start of Python, looking at devices needs no numpy.
"""

#: Names of this package and the modules they are in.
_LATER = {"Error": "error", "Info": "ipuinfo", "lib": "library", "Network": "network", "Value": "network",
          "op_info": "network", "Module": "executor", "Executor": "executor", "Dataset": "dataset", "Summary": "summary",
          "Trainer": "trainer"}

__all__ = ["Dataset", "Error", "Executor", "Info", "Module", "Network", "Summary", "Trainer", "Value", "lib", "op_info"]


def __getattr__(name: str) -> object:
    import importlib
    if name in _LATER:
        found = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
        globals()[name] = found
        return found
    if not name.startswith("_"):
        try:
            return importlib.import_module(f".{name}", __name__)
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module 'openipu' has no attribute {name!r}")
