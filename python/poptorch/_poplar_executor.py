"""PoplarExecutor and others under the name of the module that has them in PopTorch. It may be loaded more than once, as
poptorch_geometric does: what is kept is kept elsewhere."""

from ._capture.hooks import registerPostCompileHook, registerPreCompileHook
from ._capture.overwrite import _OverwriteContextManager
from ._run.executor import PoplarExecutor

__all__ = ["PoplarExecutor", "registerPostCompileHook", "registerPreCompileHook"]
