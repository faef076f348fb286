"""Front ends that come with their frameworks: when a module is imported, so is its front end.

    FRONT_ENDS["paddle"] = "openipu_paddle"          a line in this table, for those that are installed with this package
    register("paddle", "openipu_paddle")             the same from elsewhere, at any time

openipu.pth imports this module when Python starts, so it must cost nothing: it imports nothing itself, and does nothing as
long as the table is empty or IPU_NO_HOOK says so. A front end that cannot be imported is a warning; its framework is there
without it.
"""

import sys
from os import environ

#: The front end (a module) of each framework (the module after whose import it is imported).
FRONT_ENDS: "dict[str, str]" = {}


def is_off() -> bool:
    """Whether IPU_NO_HOOK is set, to something else than 0."""
    return environ.get("IPU_NO_HOOK", "0") not in ("", "0")


def register(framework: str, front_end: str) -> None:
    """Import the module `front_end` after `framework`: at once, if that has been imported already."""
    FRONT_ENDS[framework] = front_end
    install()
    if framework in sys.modules and not is_off():
        _import(front_end, framework)


def unregister(framework: str) -> None:
    """Undo `register`."""
    FRONT_ENDS.pop(framework, None)


def install() -> None:
    """Watch imports, if there is anything to watch for."""
    if FRONT_ENDS and not is_off() and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Watch imports no longer."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _import(front_end: str, framework: str) -> None:
    import importlib
    try:
        importlib.import_module(front_end)
    except Exception as e:  # pylint: disable=broad-except
        import warnings
        warnings.warn(f"{framework} cannot use IPUs: its front end {front_end} failed with {type(e).__name__}: {e}. "
                      "IPU_NO_HOOK=1 leaves it out.", RuntimeWarning, stacklevel=2)


class _Loader:
    """A framework's own loader, and then its front end."""

    def __init__(self, loader: object, front_end: str) -> None:
        self._loader = loader
        self._front_end = front_end

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: object) -> object:
        return self._loader.create_module(spec)

    def exec_module(self, module: object) -> None:
        module.__spec__.loader = module.__loader__ = self._loader  # as if it had been alone
        self._loader.exec_module(module)
        _import(self._front_end, module.__name__)


class _Finder:
    """Finds nothing itself; wraps the loaders that others find for frameworks."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        front_end = FRONT_ENDS.get(name)
        if front_end is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not _finder else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, front_end)
                return spec
        return None


_finder = _Finder()
install()
