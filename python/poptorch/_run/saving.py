"""Files of compiled models.

A file holds a pickled dictionary: what the model was compiled for, options, and with ``export_model`` the model itself,
its optimizer and their states. Compiling takes about as long as reading an executable would: a file is compiled again
when it is loaded, from the executable cache where there is one.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from openipu import files

from .. import enums
from .._errors import createPoptorchError
from .._logging import logger

MAGIC = b"OpenIPU poptorch 2\n"  # files of 1 hold objects of modules that there are no more
EXTENSION_NAME = "model.poptorch"


def save(executor: Any, filename: str, export_model: bool, save_rng_state: bool) -> None:
    """Write an executor's program to a file; see PoplarExecutor.save."""
    path = _place(filename)
    executor.copyWeightsToHostIfNeeded()
    data: Dict[str, Any] = {
        "version": executor._poptorch_version,
        "arguments": executor._executable.arguments,
        "n_plain": executor._executable.n_plain,
        "options": executor._options,
        "training": executor._training,
        "model": None,
        "optimizer": None,
        "optimizer_state": None,
        "rng_state": executor.rng_state if save_rng_state else None,
    }
    if export_model:
        data["model"] = executor.model
        data["optimizer"] = executor._optimizer
        if executor._optimizer is not None:
            data["optimizer_state"] = executor._optimizer.state_dict()
    files.write(path, MAGIC, data)


def _place(filename: str) -> str:
    path = files.place(filename, EXTENSION_NAME)
    if path != filename:
        logger.warning("save(): %s is a directory, saving model to %s", filename, path)
    return path


def read(filename: str, version: str) -> Dict[str, Any]:
    """What a file holds. AssertionError: it is none of poptorch, or of another version."""
    data = files.read(filename, MAGIC)
    assert data is not None, "it was not written by save() or compileAndExport(), or by those of an older version"
    assert data["version"] == version, (
        f"PopTorch version mismatch: File was created with version: {data['version']} and this is version {version}")
    options = data["options"]
    options._unfreeze()
    options.deleteIfExists("ipu_version")
    if options.connection_type == enums.ConnectionType.Never.value:
        options.connectionType(enums.ConnectionType.Always)
    return data


def load_executable(executor: Any, filename: str) -> None:
    """See PoplarExecutor.loadExecutable."""
    try:
        data = read(filename, executor._poptorch_version)
    except AssertionError as e:
        raise createPoptorchError(f"Invalid file {filename}: {e}") from None
    executor._compile_for(data["arguments"], data["n_plain"])
    if data["rng_state"] is not None:
        executor.rng_state = data["rng_state"]


def load(filename: str, version: str, edit: Optional[Callable[[Any], None]], training_model: Callable[..., Any],
         inference_model: Callable[..., Any]) -> Any:
    """See poptorch.load."""
    try:
        data = read(filename, version)
    except AssertionError as e:
        raise AssertionError(f"Invalid file {filename}: {e}") from None
    assert data["model"] is not None, (
        f"{filename} is a valid PopTorch file but was created with 'export_model=False' which means you need to "
        "re-create the PopTorch model using poptorch.inferenceModel or poptorch.trainingModel then call "
        f"poptorch_model.loadExecutable(\"{filename}\").")
    if edit is not None:
        edit(data["options"])
    if data["optimizer_state"] is not None:
        data["optimizer"].load_state_dict(data["optimizer_state"])
    if data["training"]:
        executor = training_model(data["model"], data["options"], data["optimizer"])
    else:
        executor = inference_model(data["model"], data["options"])
    load_executable(executor, filename)
    return executor
