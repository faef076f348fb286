"""Models on several IPUs: the same numbers as on one, whatever the strategy."""

import copy

import pytest
import torch

import poptorch

F = torch.nn.functional


class Network(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(6, 8)
        self.b = torch.nn.Linear(8, 8)
        self.c = torch.nn.Linear(8, 8)
        self.d = torch.nn.Linear(8, 3)

    def forward(self, x, y=None):
        with poptorch.Block("A", ipu_id=0):
            x = first = torch.relu(self.a(x))
        with poptorch.Block("B", ipu_id=1):
            x = torch.relu(self.b(x))
        with poptorch.Block("C", ipu_id=2):
            x = torch.relu(self.c(x)) + first
        with poptorch.Block("D", ipu_id=3):
            x = self.d(x)
            return x if y is None else (x, F.cross_entropy(x, y))


STRATEGIES = {
    "same as IPU": poptorch.PipelinedExecution(),
    "increment": poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement),
    "names": poptorch.PipelinedExecution("A", "B", ["C", "D"]),
    "stages": poptorch.PipelinedExecution(poptorch.Stage("A", "B").ipu(0), poptorch.Stage("C", "D").ipu(1)),
    "back and forth": poptorch.PipelinedExecution(*(poptorch.Stage(b).ipu(i) for b, i in zip("ABCD", (0, 1, 1, 0)))),
    "sharded": poptorch.ShardedExecution(),
    "serial phases": poptorch.SerialPhasedExecution("A", "B", "C", "D"),
    "off chip": poptorch.SerialPhasedExecution("A", "B", "C", "D").setTensorsLiveness(
        poptorch.Liveness.OffChipAfterFwd),
    "parallel phases": poptorch.ParallelPhasedExecution("A", "B", poptorch.Stage("C").ipu(2),
                                                        poptorch.Stage("D").ipu(3)),
}


@pytest.fixture(name="network", scope="module")
def _network():
    torch.manual_seed(1)
    return Network()


def batches(n, size):
    generator = torch.Generator().manual_seed(2)
    return [(torch.randn(size, 6, generator=generator), torch.randint(0, 3, (size, ), generator=generator))
            for _ in range(n)]


def trained(network, options, n, size):
    network = copy.deepcopy(network)
    model = poptorch.trainingModel(network, options, poptorch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9))
    for x, y in batches(n, size):
        model(x, y)
    return network


def by_torch(network, n, size):
    network = copy.deepcopy(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for x, y in batches(n, size):
        optimizer.zero_grad()
        network(x, y)[1].backward()
        optimizer.step()
    return network


def assert_equal(found, expected):
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", STRATEGIES)
def test_training(network, name):
    options = poptorch.Options().setExecutionStrategy(STRATEGIES[name]).autoRoundNumIPUs()
    options.Training.gradientAccumulation(8)
    assert_equal(trained(network, options, 4, 32), by_torch(network, 4, 32))


@pytest.mark.parametrize("name", STRATEGIES)
def test_inference(network, name):
    options = poptorch.Options().setExecutionStrategy(STRATEGIES[name]).autoRoundNumIPUs().deviceIterations(4)
    x = batches(1, 32)[0][0]
    torch.testing.assert_close(poptorch.inferenceModel(network, options)(x), network(x))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("replicas", [1, 2])
def test_replicas_and_recomputation(network, recompute, replicas):
    options = poptorch.Options().replicationFactor(replicas)
    options.Training.gradientAccumulation(8)
    options._Popart.set("autoRecomputation", 3 if recompute else 0)
    off = poptorch.TensorLocationSettings().useOnChipStorage(False)
    options.TensorLocations.setActivationLocation(off)
    options.TensorLocations.setOptimizerLocation(off.useReplicatedTensorSharding(replicas > 1))
    assert_equal(trained(network, options, 3, 32), by_torch(network, 3, 32))


def test_begin_block_in_a_sequence():
    torch.manual_seed(3)
    layers = torch.nn.Sequential(*(torch.nn.Linear(5, 5) for _ in range(4)))
    for i in range(1, 4):
        poptorch.BeginBlock(layers[i], ipu_id=i)
    x = torch.randn(8, 5)
    model = poptorch.inferenceModel(layers, poptorch.Options().deviceIterations(4))
    torch.testing.assert_close(model(x), layers(x))
    assert model._executable.graph.plan.ipus == [0, 1, 2, 3]


def test_tied_weights():

    class Tied(torch.nn.Module):

        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(7, 4)
            self.middle = torch.nn.Linear(4, 4)

        def forward(self, tokens, labels):
            poptorch.Block.start("in", 0)
            x = self.table(tokens)
            poptorch.Block.start("middle", 1)
            x = torch.tanh(self.middle(x))
            poptorch.Block.start("out", 0)
            x = x @ self.table.weight.T
            return x, F.cross_entropy(x, labels)

    torch.manual_seed(4)
    network = Tied()
    expected = copy.deepcopy(network)
    tokens, labels = torch.randint(0, 7, (10, )), torch.randint(0, 7, (10, ))
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        expected(tokens, labels)[1].backward()
        optimizer.step()
    options = poptorch.Options()
    options.Training.gradientAccumulation(5)
    options.setExecutionStrategy(poptorch.PipelinedExecution("in", "middle", "out"))
    model = poptorch.trainingModel(network, options, torch.optim.SGD(network.parameters(), lr=0.1))
    for _ in range(3):
        model(tokens, labels)
    assert_equal(network, expected)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x, hidden):
        return self.norm(x + self.attention(x, x, x, key_padding_mask=hidden, need_weights=False)[0])


class Encoder(torch.nn.Module):
    """A model like BERT: tables, layers, and a head with the weights of a table. All that comes before the first block,
    and all of two others, is constant or does nothing in a run."""

    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(11, 8), torch.nn.Embedding(5, 8)
        self.dropout = torch.nn.Dropout(0.0)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(6))
        self.pooler, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens, mask, labels):
        numbers = torch.arange(tokens.shape[1]).expand(tokens.shape[0], -1)
        hidden = mask.view(tokens.shape) == 0
        x = self.dropout(self.words(tokens) + self.places(numbers))
        for layer in self.layers:
            x = layer(x, hidden)
        x = self.head(torch.tanh(self.pooler(x)))
        return x, F.cross_entropy(x.view(-1, 11), labels.view(-1))


def with_blocks(model):
    """As scripts for BERT and GPT-2 do: more blocks than IPUs, and the head on the IPU of the table it shares."""
    poptorch.BeginBlock(model.words, "Embedding", ipu_id=0)
    poptorch.BeginBlock(model.dropout, "Dropout", ipu_id=2)  # of which nothing is left
    for i, ipu in enumerate((0, 1, 1, 2, 3, 3)):
        poptorch.BeginBlock(model.layers[i], f"Encoder{i}", ipu_id=ipu)
    poptorch.BeginBlock(model.layers[4].norm, "Norm4", ipu_id=3)  # inside of another
    poptorch.BeginBlock(model.pooler, "Pooler", ipu_id=3)
    poptorch.BeginBlock(model.head, "Head", ipu_id=0)
    return model


def encoder_batches(n):
    tokens = torch.randint(0, 11, (n, 5))
    mask = (torch.arange(5) < torch.randint(2, 6, (n, 1))).long()
    return tokens, mask, torch.randint(0, 11, (n, 5))


def test_more_blocks_than_changes_of_the_ipu():
    torch.manual_seed(5)
    network = Encoder()
    expected = copy.deepcopy(network)
    with_blocks(network)
    data = encoder_batches(26)
    options = poptorch.Options().setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    with pytest.raises(poptorch.Error, match=r"number of pipeline stages \(13\).* with 7 pipeline stages"):
        poptorch.trainingModel(network, options)(*(t[:2] for t in data))  # IPUs 0 2 0 1 2 3 0
    options = options.clone()
    options.Training.gradientAccumulation(13)
    model = poptorch.trainingModel(network, options, torch.optim.SGD(network.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        for micro in zip(*(t.split(2) for t in data)):
            (expected(*micro)[1] / 13).backward()
        optimizer.step()
        model(*data)
    assert_equal(network, expected)

    inference = poptorch.inferenceModel(network, poptorch.Options().deviceIterations(7).setExecutionStrategy(
        poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)))
    data = [t[:14] for t in data]
    torch.testing.assert_close(inference(*data)[0], expected(*data)[0].detach(), rtol=1e-4, atol=1e-5)


def test_a_block_that_goes_back_needs_a_stage_of_its_own():
    network = with_blocks(Encoder())
    options = poptorch.Options().deviceIterations(4)
    with pytest.raises(poptorch.Error, match="comes later.*AutoStage.AutoIncrement"):
        poptorch.inferenceModel(network, options)(*encoder_batches(4))


def test_mistakes(network):
    x, y = batches(1, 8)[0]
    with pytest.raises(poptorch.Error, match=r"deviceIterations must be .* \(4\)"):
        poptorch.inferenceModel(network)(x)
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    with pytest.raises(poptorch.Error, match=r"gradientAccumulation must be .* \(7\)"):
        trained(network, options, 1, 8)
    options = poptorch.Options().deviceIterations(4).setExecutionStrategy(poptorch.PipelinedExecution("A", "B"))
    with pytest.raises(AssertionError, match="Unknown Block 'C'"):
        poptorch.inferenceModel(network, options)(x)

    class After(torch.nn.Module):

        def forward(self, x):
            with poptorch.Block(ipu_id=0):
                x = x * 2
            return x + 1

    with pytest.raises(poptorch.Error, match="No active Block"):
        poptorch.inferenceModel(After())(x)
    assert not poptorch.isRunningOnIpu()


def test_an_earlier_stage_cannot_use_a_later_one():

    class Backwards(torch.nn.Module):

        def forward(self, x):
            poptorch.Block.start("B", 1)
            x = x * 2
            poptorch.Block.start("A", 0)
            return x + 1

    options = poptorch.Options().deviceIterations(2).setExecutionStrategy(poptorch.PipelinedExecution("A", "B"))
    with pytest.raises(poptorch.Error, match="stage"):
        poptorch.inferenceModel(Backwards(), options)(torch.ones(2))
