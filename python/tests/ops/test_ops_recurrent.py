"""Recurrent layers against torch."""

import pytest
import torch
from torch import nn

import poptorch
from support import check

LAYERS = [nn.LSTM, nn.GRU, nn.RNN, lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)]
LOOSE = {"rtol": 1e-3, "atol": 1e-4}


@pytest.mark.parametrize("layer", LAYERS, ids=["lstm", "gru", "tanh", "relu"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True}, {"batch_first": True},
                                     {"bias": False},
                                     {"num_layers": 2, "bidirectional": True, "batch_first": True}], ids=str)
def test_stacks(layer, options):
    check(layer(5, 4, **options), torch.randn(3, 2, 5), **LOOSE)


@pytest.mark.parametrize("layer", LAYERS, ids=["lstm", "gru", "tanh", "relu"])
def test_initial_states(layer):
    module = layer(5, 4, num_layers=2)
    states = (torch.randn(2, 3, 4), ) * (2 if isinstance(module, nn.LSTM) else 1)
    if len(states) == 2:

        class Pair(nn.Module):

            def __init__(self):
                super().__init__()
                self.inner = module

            def forward(self, x, h, c):
                return self.inner(x, (h, c))

        module = Pair()
    check(module, torch.randn(6, 3, 5), *states, **LOOSE)


def test_unbatched():
    check(nn.LSTM(5, 4), torch.randn(6, 5), **LOOSE)


def test_projection():
    check(nn.LSTM(5, 4, proj_size=3), torch.randn(4, 2, 5), **LOOSE)
    check(nn.LSTM(5, 4, proj_size=3, bidirectional=True, num_layers=2), torch.randn(3, 2, 5), **LOOSE)


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(cell):
    check(cell(5, 4), torch.randn(3, 5), **LOOSE)


def test_dropout_between_layers():
    layer = nn.LSTM(5, 16, num_layers=2, dropout=0.5)
    x = torch.randn(3, 2, 5)
    wrapped = poptorch.inferenceModel(layer.train())
    plain = wrapped(x)[0]
    assert torch.equal(plain, wrapped(x)[0])  # nothing drops out in an inference model
    torch.testing.assert_close(plain, layer.eval()(x)[0].detach(), rtol=1e-3, atol=1e-4)
    check(layer.eval(), x, train=False, **LOOSE)

    class Trained(nn.Module):

        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            y = self.layer(x)[0]
            return y, poptorch.identity_loss(y, "mean")

    model = Trained().train()
    y = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0))(x)[0]
    assert not torch.allclose(y, plain)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_half(layer):
    check(layer(5, 4).half(), torch.randn(3, 2, 5).half(), train=False, rtol=1e-2, atol=1e-2)


def test_packed_sequences_are_refused():

    class Packed(nn.Module):

        def __init__(self):
            super().__init__()
            self.layer = nn.GRU(5, 4)

        def forward(self, x):
            return self.layer(nn.utils.rnn.pack_padded_sequence(x, [3, 2]))

    with pytest.raises(poptorch.Error, match="Packed sequences"):
        poptorch.inferenceModel(Packed())(torch.randn(3, 2, 5))
