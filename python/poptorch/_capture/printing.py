"""Models as text, with the blocks that begin at their modules."""

from __future__ import annotations

import builtins
from typing import Any

import torch


def _block_of(module: torch.nn.Module) -> str:
    """How a module is shown that begins a block; "" otherwise."""
    for hook in getattr(module, "_forward_pre_hooks", {}).values():
        text = repr(hook)
        if text.startswith("BeginBlock"):
            return text
    return ""


def module_repr(module: Any) -> str:
    """As torch shows a module, with BeginBlock around modules that begin one."""
    if not isinstance(module, torch.nn.Module):
        return repr(module)
    lines = module.extra_repr().split("\n") if module.extra_repr() else []
    for name, child in module._modules.items():
        text = module_repr(child) if child is not None else "None"
        lines.append(f"({name}): " + "\n  ".join(text.split("\n")))
    text = f"{module._get_name()}("
    if len(lines) == 1 and not module._modules:
        text += lines[0]
    elif lines:
        text += "\n  " + "\n  ".join(lines) + "\n"
    text += ")"
    block = _block_of(module)
    return f"{block} {text}" if block else text


def print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """print() that shows where the blocks of a model begin."""
    shown = [module_repr(value) if isinstance(value, torch.nn.Module) else value for value in values]
    builtins.print(*shown, sep=sep, end=end, file=file, flush=flush)
