"""Ops that poptorch adds to torch's: control flow, hints, prints, functions of the host.

In a model that is not being compiled for the IPU they do what they can on the host, so that a module gives the same results
there.
"""

from __future__ import annotations

from ._capture.contexts import Attribute, MultiConv, NameScope
from ._capture.functions import (CPU, cond, ctc_beam_search_decoder, custom_op, dynamic_slice, dynamic_update, for_loop,
                                 identity_loss, ipu_print_tensor, nop, recomputationCheckpoint, serializedMatMul,
                                 set_available_memory, set_overlap_for_input, set_overlap_for_output)
from ._capture.points import fps, nearest

__all__ = ["Attribute", "CPU", "MultiConv", "NameScope", "cond", "ctc_beam_search_decoder", "custom_op", "dynamic_slice",
           "dynamic_update", "for_loop", "fps", "identity_loss", "ipu_print_tensor", "nearest", "nop",
           "recomputationCheckpoint", "serializedMatMul", "set_available_memory", "set_overlap_for_input",
           "set_overlap_for_output"]
