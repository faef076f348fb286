"""Normalisations against torch."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from support import assert_same, check

SHAPES = {1: (4, 6, 5), 2: (4, 6, 3, 5), 3: (4, 6, 2, 3, 4)}
TIGHT = {"rtol": 1e-3, "atol": 1e-4}


def varied(norm):
    """Weights and statistics that are not 1 and 0."""
    for p in norm.parameters():
        p.data = torch.rand(p.shape) + 0.5
    for name, b in norm.named_buffers():
        if b.is_floating_point():
            b.copy_(torch.rand(b.shape) + 0.5)
    return norm


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"affine": False}, {"track_running_stats": False},
                                     {"momentum": 0.3, "eps": 0.1}], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_batch(n, options, training):
    norm = varied(getattr(nn, f"BatchNorm{n}d")(6, **options)).train(training)
    check(norm, torch.randn(SHAPES[n]) * 2 + 1, **TIGHT)


def test_batch_of_rows():
    check(varied(nn.BatchNorm1d(6)), torch.randn(8, 6), **TIGHT)


def test_cumulative_statistics():
    check(nn.BatchNorm1d(6, momentum=0.25), torch.randn(8, 6), **TIGHT)


def test_statistics_move_with_each_step():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    reference = copy.deepcopy(model)

    class Loss(nn.Module):

        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return poptorch.identity_loss(self.inner(x), "mean")

    trained = poptorch.trainingModel(Loss(model), optimizer=torch.optim.SGD(model.parameters(), lr=0.0))
    for _ in range(3):
        x = torch.randn(2, 3, 5, 5)
        trained(x)
        reference(x)
    trained.copyWeightsToHost()
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert_same(getattr(model[1], name), getattr(reference[1], name), 1e-4, 1e-5, name)


@pytest.mark.parametrize("shape", [(5, ), (2, 5), (3, 2, 5)])
@pytest.mark.parametrize("affine", [True, False])
def test_layer(shape, affine):
    check(varied(nn.LayerNorm(shape, elementwise_affine=affine)), torch.randn(4, 3, 2, 5), **TIGHT)


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 5), (4, 6, 3, 5)])
@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("affine", [True, False])
def test_group(shape, groups, affine):
    if shape == (4, 6) and groups == 6:
        pytest.skip("one value in a group")
    check(varied(nn.GroupNorm(groups, 6, affine=affine)), torch.randn(shape), **TIGHT)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"affine": True}, {"affine": True, "track_running_stats": True}], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_instance(n, options, training):
    norm = varied(getattr(nn, f"InstanceNorm{n}d")(6, **options)).train(training)
    check(norm, torch.randn(SHAPES[n]), **TIGHT)


def test_functions_of_torch():
    w, b, mean, var = torch.rand(6), torch.rand(6), torch.rand(6), torch.rand(6) + 0.5
    x = torch.randn(4, 6, 5)
    for training in (True, False):
        check(lambda x: torch.batch_norm(x, w, b, mean.clone(), var.clone(), training, 0.1, 1e-5, False), x, **TIGHT)
        check(lambda x: torch.instance_norm(x, w, b, mean.clone(), var.clone(), training, 0.1, 1e-5, False), x, **TIGHT)
    check(lambda x: torch.group_norm(x, 3, w, b), x, **TIGHT)
    check(lambda x: torch.layer_norm(x, (6, 5)), x, **TIGHT)


def test_one_value_in_a_channel_is_refused():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        poptorch.inferenceModel(nn.BatchNorm1d(6))(torch.randn(1, 6))


def test_local_response():
    check(nn.LocalResponseNorm(3, alpha=0.1, k=2.0), torch.randn(2, 7, 4, 3))
    check(nn.LocalResponseNorm(2), torch.randn(2, 7, 4))


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim):
    layer, x = nn.utils.weight_norm(nn.Linear(5, 4), dim=dim), torch.randn(3, 5)
    with torch.no_grad():
        layer(x)  # so that it can be copied: its weight has no history
    check(layer, x)


def test_weight_norm_of_a_vector_takes_each_element_by_itself():
    check(lambda v, g: torch._weight_norm(v, g, 0), torch.tensor([3.0, -4.0, 0.5]), torch.tensor([10.0, 2.0, -1.0]))


def test_normalize():
    check(lambda x: F.normalize(x, dim=1), torch.randn(3, 5))


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(6), nn.GroupNorm(2, 6), nn.LayerNorm((3, 5)), nn.InstanceNorm2d(6)],
                         ids=str)
def test_half(norm):
    check(norm.half(), torch.randn(4, 6, 3, 5).half(), rtol=2e-2, atol=2e-2)


def test_half_with_float_weights():
    for norm in (nn.GroupNorm(2, 6), nn.BatchNorm2d(6)):
        y = poptorch.inferenceModel(norm)(torch.randn(4, 6, 3, 5).half())
        assert y.dtype == torch.float16


def test_groups_of_channels_that_are_apart():
    options = poptorch.Options()
    options._Popart.set("groupNormStridedChannelGrouping", True)
    norm, x = varied(nn.GroupNorm(3, 6)), torch.randn(2, 6, 4)
    order = torch.tensor([0, 3, 1, 4, 2, 5])  # channel c is of group c % 3
    expected = torch.empty_like(x)
    expected[:, order] = F.group_norm(x[:, order], 3, norm.weight[order], norm.bias[order])
    assert_same(poptorch.inferenceModel(norm, options)(x), expected, 1e-4, 1e-5, "result")
