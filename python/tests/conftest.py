"""Random numbers are the same whenever a test is run."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(42)
