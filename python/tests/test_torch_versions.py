"""Which torch this is: all tests run with the one that is installed."""

import re
from pathlib import Path

import pytest
import torch

from poptorch import _torch_compat as compat

MAJOR = int(torch.__version__.split(".")[0])


def test_what_depends_on_torch_is_in_one_file():
    package = Path(compat.__file__).parent
    asking = [path.name for path in package.rglob("*.py")
              if re.search(r"torch\.__version__ *([<>=[]|\.split)|torch\.version\b", path.read_text())]
    assert set(asking) <= {"_torch_compat.py"}, asking


@pytest.mark.skipif(MAJOR < 2, reason=f"torch is {torch.__version__} here: 2.x is tested where it is installed")
def test_torch_2_captures():
    import poptorch
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    x = torch.ones(2, 3)
    assert torch.allclose(poptorch.inferenceModel(model)(x), model(x), atol=1e-6)
