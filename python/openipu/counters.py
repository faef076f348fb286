"""When inputs and outputs of a run moved, and what latencies follow."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

EVENTS = ("input", "input_complete", "output", "output_complete")
Times = Dict[str, List[List[float]]]


def of_last_run(program: Optional[Any]) -> Times:
    """Of the last run of a program; empty lists before one."""
    times = program.times() if program is not None else None
    return {event: (times[event] if times and times[event] else [[]]) for event in EVENTS}


def _by_batch(times: List[List[float]], reduce: Callable[[List[float]], float]) -> List[float]:
    """One number for each batch, over all tensors."""
    return [reduce(list(of_batch)) for of_batch in zip(*times)]


def latency(times: Times, begin: str, first: Callable[[List[float]], float], end: str,
            last: Callable[[List[float]], float]) -> Tuple[float, float, float]:
    """Minimum, maximum and mean over batches of the seconds from one event to another; zeros before a run."""
    begins, ends = _by_batch(times[begin], first), _by_batch(times[end], last)
    if not ends or not begins:
        return (0.0, 0.0, 0.0)
    step = max(1, len(begins) // len(ends))  # batches that one output is of
    seconds = [e - min(begins[i * step:(i + 1) * step]) for i, e in enumerate(ends)]
    return (min(seconds), max(seconds), sum(seconds) / len(seconds))
