"""Blocks and execution strategies: where ops run, and what is wrong with it."""

import copy
import pickle

import pytest
import torch

import poptorch
from openipu.settings import Schedule
from poptorch._capture import blocks as _blocks
from poptorch._run.strategies import Place, plan_of


def places(strategy, *blocks):
    """Where ops run: (name or None, IPU or None) of blocks that go on until the next."""
    out = []
    with _blocks.capture(strategy):
        for user_id, ipu_id in blocks:
            poptorch.Block.start(user_id, ipu_id)
            out.append(_blocks.place())
    return out


def test_nothing_outside_of_a_capture():
    with poptorch.Block("A", ipu_id=3):
        assert _blocks.place() == Place(0, 0, 0)
    poptorch.Block.start("B", 1)
    poptorch.Block.useAutoId()
    assert _blocks.place() == Place(0, 0, 0)


def test_same_as_ipu():
    assert places(poptorch.PipelinedExecution(), (None, 2), (None, 0)) == [Place(2, 0, 2), Place(0, 0, 0)]
    with pytest.raises(AssertionError, match="no IPU was specified for block A"):
        places(poptorch.PipelinedExecution(), ("A", None))


def test_auto_increment():
    strategy = poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)
    assert [p.stage for p in places(strategy, ("A", 0), ("B", 1), ("A", 0), (None, 1))] == [1, 2, 1, 3]


def test_named_stages():
    strategy = poptorch.PipelinedExecution("A", ["B", "C"], poptorch.Stage("D").ipu(7))
    found = places(strategy, ("A", None), ("C", None), ("D", 5), ("B", 4))
    assert found == [Place(0, 0, 0), Place(1, 0, 1), Place(2, 0, 7), Place(1, 0, 4)]
    assert strategy.stage("C").blocks == ("B", "C")
    with pytest.raises(AssertionError, match="Unknown Block 'E'"):
        places(strategy, ("E", 0))
    with pytest.raises(AssertionError, match="more than one stage"):
        poptorch.PipelinedExecution("A", ["B", "A"])
    with pytest.raises(AssertionError, match="strings"):
        poptorch.Stage(1)


def test_scopes():
    with _blocks.capture(poptorch.PipelinedExecution()):
        assert _blocks.place() == Place(0, 0, 0)
        with poptorch.Block(ipu_id=1):
            with poptorch.Block(ipu_id=2):
                assert _blocks.place().ipu == 2
            assert _blocks.place().ipu == 1, "the block around goes on"
        with pytest.raises(poptorch.Error, match="No active Block"):
            _blocks.place()
        poptorch.Block.start(ipu_id=3)
        assert _blocks.place().ipu == 3


def test_auto_ids():
    strategy = poptorch.PipelinedExecution("0", "1", "x")
    with _blocks.capture(strategy):
        for expected in (0, 1):
            with poptorch.Block():
                assert _blocks.place().stage == expected
        with poptorch.Block("x"):
            assert _blocks.place().stage == 2
        poptorch.Block.useAutoId()
        with poptorch.Block():
            assert _blocks.place().stage == 0


def test_begin_block():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    assert poptorch.BeginBlock(module[0], "A", ipu_id=1) is module[0]
    with pytest.raises(poptorch.Error, match="already been assigned to a block"):
        poptorch.BeginBlock(module[0], "B")
    with pytest.raises(poptorch.Error, match="not an instance of torch.nn.Module"):
        poptorch.BeginBlock(3)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert "BeginBlock(user_id=A, ipu_id=1)" in poptorch.module_repr(other)
    with _blocks.capture(poptorch.PipelinedExecution()):
        module(torch.ones(1, 2))
        assert _blocks.place().ipu == 1
    poptorch.removeBlocks(module)
    assert "BeginBlock" not in poptorch.module_repr(module)
    poptorch.BeginBlock(module[0], "B")


def test_hooks_without_names_keep_their_numbers():
    module = poptorch.BeginBlock(torch.nn.ReLU(), ipu_id=1)
    with _blocks.capture(poptorch.PipelinedExecution("0", "1")):
        module(torch.ones(1))
        with poptorch.Block():
            assert _blocks.place().stage == 1
        module(torch.ones(1))
        assert _blocks.place().stage == 0


def test_functions():
    calls = []

    @poptorch.BlockFunction("A", ipu_id=2)
    def decorated(x):
        """About it."""
        calls.append(_blocks.place())
        return x

    begun = poptorch.BeginBlock(lambda x: calls.append(_blocks.place()), "B", 3)
    with _blocks.capture(poptorch.PipelinedExecution()):
        assert decorated(5) == 5 and decorated.__doc__ == "About it."
        begun(1)
    assert [p.ipu for p in calls] == [2, 3]


def test_phases():
    strategy = poptorch.ParallelPhasedExecution([poptorch.Stage("A"), poptorch.Stage("B")], poptorch.Phase("C"))
    strategy.phase(0).ipus(0, 2)
    strategy.phase(1).ipus(1)
    assert places(strategy, ("A", None), ("B", None), ("C", None)) == [Place(0, 0, 0), Place(0, 0, 2), Place(0, 1, 1)]
    strategy.phase(1).ipus(2)
    with pytest.raises(poptorch.Error, match="even phases must run on even IPUs"):
        places(strategy, ("C", None))
    with pytest.raises(AssertionError, match="2 stages but you provided 1"):
        strategy.phase(0).ipus(1)
    with pytest.raises(AssertionError, match="explicitly specify the phases"):
        poptorch.SerialPhasedExecution()


def test_plans():
    options = poptorch.Options().deviceIterations(8).autoRoundNumIPUs()
    a, b, c = Place(0, 0, 0), Place(1, 0, 4), Place(2, 0, 0)
    plan = plan_of([a, b, b, c], options, False)
    assert (plan.stages, plan.ipus, plan.names) == (["0", "1", "2"], [0, 1, 0], ["0", "1", "1", "2"])
    assert plan.schedule == Schedule.GROUPED
    assert plan_of([a, c], options, False).stages == [], "all on one IPU"
    plan = plan_of([a, Place(3, 0, 4), Place(1, 0, 0), c, Place(4, 0, 4)], options, False)
    assert (plan.stages, plan.ipus, plan.names) == (["0", "3"], [0, 1], ["0", "3", "0", "0", "3"]), "one change of the IPU"
    options.setExecutionStrategy(poptorch.ShardedExecution())
    plan = plan_of([a, b, a, a], options, False)
    assert (plan.stages, plan.ipus, plan.names) == (["0", "1", "2"], [0, 1, 0], ["0", "1", "2", "2"])
    assert plan.schedule == Schedule.SEQUENTIAL


def test_numbers_of_ipus():
    three = [Place(i, 0, i) for i in range(3)]
    options = poptorch.Options().deviceIterations(3)
    with pytest.raises(poptorch.Error, match="use of 3 IPUs, however PopTorch must reserve a minimum of 4"):
        plan_of(three, options, False)
    plan_of(three, options.clone().autoRoundNumIPUs(), False)
    plan_of(three, options.clone().useIpuModel(True), False)
    with pytest.raises(poptorch.Error, match=r"Too many IPUs requested \(128\)"):
        plan_of([Place(0, 0, 0)], poptorch.Options().replicationFactor(128), False)


def test_depth_of_pipelines():
    two = [Place(0, 0, 0), Place(1, 0, 1)]
    options = poptorch.Options()
    with pytest.raises(poptorch.Error, match=r"deviceIterations must be .* number of pipeline stages \(2\)"):
        plan_of(two, options, False)
    with pytest.raises(poptorch.Error, match=r"gradientAccumulation must be .* number of pipeline stages \(3\)"):
        plan_of(two, options, True)
    options.Training.gradientAccumulation(3)
    plan_of(two, options, True)
    options.setExecutionStrategy(poptorch.ShardedExecution())
    plan_of(two, options, False)
