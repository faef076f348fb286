"""What openipu has for front ends, used by one that is not poptorch."""

from __future__ import annotations

import logging
import subprocess
import sys
import types

import pytest
import torch

from openipu import counters, files, log, optimizers, reports, structures, tracking
from openipu.arguments import Arguments, Signature
from openipu.data import worker
from openipu.data.parts import Part, joined
from openipu.data.process import AsynchronousWorker
from openipu.error import Error, UsageError
from openipu.executor import Executor, Module
from openipu.program import Program
from openipu.replicas import Grouping, groups_of
from openipu.session import Learner, Session
from openipu.settings import ExecutorOptions, OptimizerKind, OutputMode
from openipu.stages import Place, Placement, Stage, Strategy, plan_in_turn, plan_of_pipeline
from openipu.values import Values, sets


def kept_of(model, trained):
    return [types.SimpleNamespace(name=name, tensor=p, trained=trained, updated=False, groups=())
            for name, p in model.named_parameters()]


def compiled(model, x, learner=None, **options):
    """y = x w' + b; in training the loss is the mean of its squares."""

    def build(network, values):
        w = network.parameter("weight", "float", tuple(model.weight.shape))
        b = network.parameter("bias", "float", tuple(model.bias.shape))
        y = network.emit("add", [network.emit("matmul", [values[0], network.emit("transpose", [w], perm=[1, 0])]), b])
        network.output(y, "output0")
        if learner is not None:
            network.loss(network.emit("reduce_mean", [network.emit("mul", [y, y])], axes=[0, 1]), "loss")

    training = learner.training(["weight", "bias"]) if learner is not None else None
    arguments = Arguments()
    arguments.add("x", x)
    return Program(build, 1, kept_of(model, learner is not None), [x], ExecutorOptions(**options), training,
                   arguments=arguments.remembered())


def call_of(*tensors):
    arguments = Arguments()
    for i, tensor in enumerate(tensors):
        arguments.add(f"x{i}", tensor)
    return arguments


class Sgd(Learner):
    """Of an optimizer that has no state."""

    def __init__(self, model):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.parameters = dict(model.named_parameters())
        self.told = None

    def training(self, names):
        self.told = optimizers.training_of(self.optimizer, [(n, self.parameters[n]) for n in names])
        return self.told

    def change(self, program, rate):
        self.optimizer.param_groups[0]["lr"] = rate
        before = self.told
        optimizers.change(program, before, self.training(["weight", "bias"]))


class Owner:
    """As poptorch's executor is one of its session, for ``tracking``."""

    def __init__(self, session):
        self.session = session

    def _fetch_weights(self):
        return self.session.fetch_weights()

    @property
    def _host_weights_version(self):
        return self.session.version


def by_torch(model, x, rates):
    """The weights after steps with these rates."""
    for rate in rates:
        model.zero_grad()
        (model(x)**2).mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= rate * p.grad
    return [p.detach().clone() for p in model.parameters()]


@pytest.fixture(name="model")
def make_model():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def test_it_does_without_poptorch():
    code = ("import sys, openipu.session, openipu.program, openipu.optimizers, openipu.data.process, openipu.stages\n"
            "import openipu.tracking, openipu.replicas, openipu.reports, openipu.values, openipu.files\n"
            "print([name for name in sys.modules if name.startswith('poptorch')])")
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_a_session_runs_what_torch_would(model):
    session, x = Session(), torch.randn(4, 3)
    with pytest.raises(UsageError, match="has not been compiled"):
        session.compiled()
    session.take(compiled(model, x))
    y, = session.run(session.program, [x], [x])
    assert torch.allclose(y, model(x), atol=1e-6)
    assert session.program.match((x, )) is None
    session.program.accept_plain(1, [x])
    assert session.program.match((x, )) == (x, ) and session.program.match((x[:2], )) is None
    times = counters.of_last_run(session.program)
    low, high, mean = counters.latency(times, "input", min, "output_complete", max)
    assert 0 < low <= mean <= high
    session.release()
    assert session.program is None and not session.is_attached


def test_output_modes(model):
    x = torch.randn(8, 3)
    expected = model(x).detach().reshape(4, 2, 2)
    for mode, period, want in ((OutputMode.ALL, 1, expected), (OutputMode.FINAL, 1, expected[3:]),
                               (OutputMode.EVERY_N, 2, expected[1::2]), (OutputMode.SUM, 1, expected.sum(0, True)),
                               (OutputMode.MEAN, 1, expected.mean(0, True)), (OutputMode.DEFAULT, 1, expected)):
        for all_batches in (False, True):  # chosen by the library, and here

            def build(network, values):
                w = network.parameter("weight", "float", (2, 3))
                b = network.parameter("bias", "float", (2, ))
                y = network.emit("matmul", [values[0], network.emit("transpose", [w], perm=[1, 0])])
                network.output(network.emit("add", [y, b]), "output0")

            program = Program(build, 1, kept_of(model, False), [x],
                              ExecutorOptions(device_iterations=4, output_mode=mode, output_period=period),
                              all_batches=all_batches)
            found, = program.run([x], [x])
            assert torch.allclose(found, want.reshape(-1, 2), atol=1e-5), (mode, all_batches)
            program.close()


@pytest.mark.parametrize("no_fold, reason", [(False, ""), (True, "option no_fold is set")])
def test_why_replicas_are_kept_apart(no_fold, reason):
    module = Module(lambda network, inputs: network.output(network.emit("neg", inputs), "y"), ["x"])
    executor = Executor(module, ExecutorOptions(replicas=2, no_fold=no_fold))
    assert executor.fold_reason() == ""  # it is not compiled
    assert executor.call([torch.ones(4, 3)])["y"].tolist() == [[-1] * 3] * 4
    assert executor.fold_reason() == reason


def test_a_program_for_each_shape(model):
    session, small, large = Session(), torch.randn(2, 3), torch.randn(5, 3)
    session.take(compiled(model, small))
    first = session.program

    def other():
        session.take(compiled(model, large))
        return session.program

    assert session.program_for(call_of(small), False, other) is first
    with pytest.raises(UsageError, match="Shape mismatch for x"):
        session.program_for(call_of(large), False, other)
    second = session.program_for(call_of(large), True, other)
    assert second is session.program is not first and session.programs == [first, second]
    assert torch.allclose(session.run(second, [large], [large])[0], model(large), atol=1e-6)
    assert session.program_for(call_of(small), True, other) is first and session.programs == [first, second]
    assert torch.allclose(session.run(first, [small], [small])[0], model(small), atol=1e-6)
    session.release()


def test_training_and_who_looks_at_it(model):
    x = torch.randn(4, 3)
    reference = torch.nn.Linear(3, 2)
    reference.load_state_dict(model.state_dict())
    expected = by_torch(reference, x, (0.1, 0.1, 0.02))
    learner = Sgd(model)
    session = Session(learner)
    owner = Owner(session)
    tracking.wrap(model, owner)
    watching = Session()
    watching.take(compiled(model, x))
    session.take(compiled(model, x, learner))
    version = session.version
    for _ in range(2):
        session.run(session.program, [x], [x])
    learner.change(session.program, 0.02)
    session.run(session.program, [x], [x])
    y, = watching.run(watching.program, [x], [x])  # has the weights that were trained
    assert session.version > version
    assert torch.allclose(y, reference(x), atol=1e-5)
    for found, own in zip(model.parameters(), expected):
        assert torch.allclose(found, own, atol=1e-6)
    assert tracking.is_wrapped(model) and tracking.owner_of(model) is owner
    session.release()
    tracking.unwrap(model)
    watching.release()
    assert type(model) is torch.nn.Linear and type(model.weight) is torch.nn.Parameter


def test_reports(model, tmp_path):
    program = compiled(model, torch.randn(2, 3))
    reports.write_profile(program.executor, str(tmp_path / "a" / "profile.json"))
    assert "cycles" in (tmp_path / "a" / "profile.json").read_text()
    reports.write_network(program.module, str(tmp_path / "net.onnx"), 2, "a test")
    assert b"Gemm" in (tmp_path / "net.onnx").read_bytes() or b"MatMul" in (tmp_path / "net.onnx").read_bytes()
    program.close()
    with pytest.raises(UsageError, match="has been destroyed"):
        program.run([torch.randn(2, 3)], [])


def test_optimizers(model):
    told = optimizers.training_of(torch.optim.AdamW(model.parameters(), lr=0.5, betas=(0, 0.9)), model.named_parameters())
    assert (told.optimizer.kind, told.optimizer.rate, told.optimizer.beta1) == (OptimizerKind.ADAMW, 0.5, -1)
    told = optimizers.training_of(torch.optim.SGD([model.weight], lr=0.5), model.named_parameters())
    assert told.groups[0].frozen and told.groups[0].parameters == ["bias"]
    assert optimizers.kind_of(torch.optim.Adagrad(model.parameters(), initial_accumulator_value=1)) is None
    with pytest.raises(UsageError, match="several times in one step"):
        optimizers.kind_of(torch.optim.LBFGS(model.parameters()))


class Shape(Values):
    sides = sets("n_sides", "n: int = 3", at_least=3, doc="""
        How many sides.

        At least three.""")
    name = sets("?called", "text: str", kind=str, wrong="a name is a text, not {!r}", doc="What it is called.")
    hidden = sets("_hidden", "hidden: bool = True", made=int, doc="Whether it is seen.")


def test_values():
    shape = Shape(n_sides=4)
    assert shape.sides(5).n_sides == 5 and shape.sides() is shape and shape.n_sides == 3
    assert shape.name("triangle").called == "triangle" and shape("called") == "triangle"
    assert shape.hidden()._hidden == 1
    for wrong, message in ((lambda: shape.sides(2), "n_sides must be at least 3: found 2"),
                           (lambda: shape.name(1), "a name is a text, not 1"),
                           (lambda: shape.sides("3"), "Unexpected type"),
                           (lambda: shape.set(none=1), "Invalid option none")):
        with pytest.raises(AssertionError, match=message):
            wrong()
    with pytest.raises(TypeError, match="unexpected keyword"):
        shape.sides(m=1)
    assert Shape.sides.__doc__ == "How many sides.\n\nAt least three." and Shape.sides.__qualname__ == "Shape.sides"
    with pytest.raises(AttributeError, match="Did you mean n_sides"):
        shape.n_side  # pylint: disable=pointless-statement
    shape._freeze()
    with pytest.raises(AttributeError, match="frozen"):
        shape.sides(4)


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


def test_structures():
    structures.register(Pair, structures.Container(lambda p: iter((p.a, p.b)), lambda _, leaves: Pair(next(leaves), next(leaves))))
    try:
        value = {"x": (torch.zeros(1), [Pair(torch.ones(1), torch.ones(2))]), "n": 3}
        leaves = structures.flatten(value)
        assert [len(leaf) for leaf in leaves] == [1, 1, 2]
        again = structures.rebuild(value, iter("abc"))
        assert again["x"][0] == "a" and again["x"][1][0].b == "c" and again["n"] == 3
    finally:
        structures.register(Pair, None)
    assert structures.flatten(Pair(torch.ones(1), None)) == []


def test_signatures():
    signature = Signature(lambda x, y=2, *, z: x)
    arguments = signature.resolve([torch.ones(1)], {"z": 3})
    assert arguments.names == ["x", "y"] and arguments.kwargs == {"z": 3}
    with pytest.raises(UsageError, match="parameter x missing"):
        signature.resolve([], {"z": 3})


def test_groups_of_replicas(model):
    assert groups_of(Grouping.CONSECUTIVE, 2, 4) == [0, 0, 1, 1] and groups_of(Grouping.ORTHOGONAL, 2, 4) == [0, 1, 0, 1]
    x = torch.randn(2, 3)
    program = compiled(model, x, replicas=4, input_group_size=2, orthogonal_inputs=True)
    y, = program.run([x], [x])
    assert torch.allclose(y, model(torch.cat([x, x])), atol=1e-6)
    program.close()
    with pytest.raises(Error, match="expected a size that divides the 4 replicas, found 3"):
        groups_of(Grouping.ORTHOGONAL, 3, 4)


def test_stages():
    placement = Placement(Strategy())
    places = [placement.place()]
    for block, ipu in (("a", 1), ("b", 1), ("a", 1), ("c", 0)):
        placement.begin(block, ipu)
        places.append(placement.place())
    assert [place.stage for place in places] == [0, 1, 2, 1, 3]
    plan = plan_of_pipeline(places)
    assert (plan.stages, plan.ipus, plan.names) == (["0", "1", "3"], [0, 1, 0], ["0", "1", "1", "1", "3"])
    assert plan_in_turn(places).stages == ["0", "1", "2", "3", "4"]
    assert plan_of_pipeline([Place(0, 0, 5), Place(1, 0, 5)]).stages == []
    assert Stage("a", "b").ipu(2).blocks == ("a", "b")


def test_files(tmp_path):
    path = files.place(str(tmp_path / "new" / "file"), "inside")
    files.write(path, b"magic", {"a": 1})
    assert files.read(path, b"magic") == {"a": 1} and files.read(path, b"other") is None
    assert files.place(str(tmp_path), "inside") == str(tmp_path / "inside")
    with pytest.raises(AssertionError, match="not a directory"):
        files.place(path + "/more", "inside")


def test_parts_of_a_dataset():
    parts = [Part(list(range(10)), process, 2, 2, True, seed=1) for process in range(2)]
    assert [[part[i] for i in range(len(part))] for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    for part in parts:
        part.shift()
    assert [[part[i] for i in range(len(part))] for part in parts] == [[2, 3, 4, 5], [6, 7, 8, 9]]
    for part in parts:
        part.shift()
        part.shuffle()
    seen = [part[i] for part in parts for i in range(len(part))]
    assert len(set(seen)) == 8 and seen != sorted(seen)
    whole = list(joined(iter([torch.ones(1), torch.zeros(1), torch.ones(1)]), 2, False))
    assert [list(batch) for batch in whole] == [[1, 0], [1]]


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_batches_of_another_process(method):
    dataset = [torch.full((2, 2), i) for i in range(5)]
    loading = AsynchronousWorker(worker.Settings(dataset, 2, False, False, None, seed=0), method)
    try:
        for _ in range(2):
            loading.reset_iterator()
            for i in range(5):
                assert loading.next_batch().tolist() == [[i, i], [i, i]]
            with pytest.raises(StopIteration):
                loading.next_batch()
    finally:
        loading.terminate()


def test_a_loader_that_cannot_begin():
    with pytest.raises(UsageError, match="AsynchronousLoader worker thread failed to start(.|\n)*Dataset is empty"):
        AsynchronousWorker(worker.Settings([], 2, False, False, None, seed=0), "fork")
    with pytest.raises(UsageError, match='cannot be sent to its process(.|\n)*method="fork"'):
        AsynchronousWorker(worker.Settings(lambda: 0, 2, False, False, None, seed=0), "spawn")


def test_the_log_of_a_front_end():
    code = ("import logging, sys\n"
            "from openipu import log\n"
            "own = logging.getLogger('own')\n"
            "log.forward_to(own)\n"
            "log.show(own, 'stdout')\n"
            "own.setLevel(logging.INFO)\n"
            "log.logger.info('said'), log.logger.debug('not said')")
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout.endswith("[own] [info] said\n") and said.stdout.count("\n") == 1 and said.stderr == ""
    assert isinstance(log.logger, logging.Logger) and issubclass(UsageError, Error)


FRONT_END = """
import logging
from openipu import log, parts
own = logging.getLogger("{name} of its own")
log.forward_to(own)
log.show(own, "stdout")
own.setLevel(logging.{level})

def speak():
    parts.speak()

class Speaker(parts.Speaker):
    pass
"""
PARTS = """
from .log import logger

def speak():
    logger.info("a function"), logger.debug("in detail")

class Speaker:
    def speak(self):
        speak()
        logger.info("a method")
"""


def said(code, folder):
    """What a program prints beside which there are two front ends, and a part of openipu that speaks."""
    for name, level in (("one", "INFO"), ("two", "DEBUG")):
        (folder / f"{name}.py").write_text(FRONT_END.format(name=name, level=level))
    begin = ("import sys, types, openipu.log\n"
             "parts = sys.modules['openipu.parts'] = types.ModuleType('openipu.parts')\n"
             "parts.__package__ = 'openipu'\n"
             f"exec({PARTS!r}, vars(parts))\nopenipu.parts = parts\n")
    done = subprocess.run([sys.executable, "-c", begin + code], check=True, capture_output=True, text=True, cwd=folder)
    return [line.partition("] ")[2] for line in (done.stdout + done.stderr).splitlines() if line.startswith("[")]


ONE = ["[one of its own] [info] a function"]
TWO = ["[two of its own] [info] a function", "[two of its own] [debug] in detail"]


def test_front_ends_of_one_process_have_a_log_each(tmp_path):
    assert said("import one\none.speak(), parts.speak()", tmp_path) == ONE + ONE  # there is no other
    assert said("import one, two\none.speak(), two.speak(), one.speak()", tmp_path) == ONE + TWO + ONE
    inherited = said("import one, two\ntwo.Speaker().speak(), one.Speaker().speak()", tmp_path)
    assert inherited == [*TWO, "[two of its own] [info] a method", *ONE, "[one of its own] [info] a method"]
    nobody = ("import logging, one, two\nlogging.basicConfig(format='[] [%(name)s] %(message)s', level='INFO')\n"
              "parts.speak()")
    assert said(nobody, tmp_path) == ["[openipu] a function"]


def test_poptorch_goes_on_beside_another(tmp_path):
    code = ("import poptorch, torch, one\none.speak()\n"
            "class Model(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        return x['a'] + 1\n"
            "options = poptorch.Options().showCompilationProgressBar(False)\n"
            "poptorch.inferenceModel(Model(), options)({'a': torch.ones(1), 'b': 2})\n")
    first, second = said(code, tmp_path)
    assert first == ONE[0] and second.startswith("[poptorch::python] [warning] Dicts as inputs")
