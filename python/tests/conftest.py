"""Random numbers are the same whenever a test is run, and Ctrl-C means what it does in a terminal."""

import signal

import pytest
import torch

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells leave it to what they run in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(42)
