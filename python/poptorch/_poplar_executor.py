"""PoplarExecutor under the name of the module that has it in PopTorch."""

from ._executor import PoplarExecutor
from ._utils import registerPostCompileHook, registerPreCompileHook

__all__ = ["PoplarExecutor", "registerPostCompileHook", "registerPreCompileHook"]
