"""Losses against torch: values, gradients, and that they count as losses."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from support import check

REDUCTIONS = ["mean", "sum", "none"]
signs = torch.tensor([1.0, -1, -1, 1, 1, -1, 1, -1, -1, -1]).reshape(5, 2)


def labels(*shape, n=4):
    return torch.randint(0, n, shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("fn", [F.l1_loss, F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_elementwise(fn, reduction):
    check(lambda x, t: fn(x, t, reduction=reduction), torch.randn(5, 2), torch.randn(5, 2))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_curves(reduction):
    check(lambda x, t: F.smooth_l1_loss(x, t, reduction=reduction, beta=0.3), torch.randn(5, 2), torch.randn(5, 2))
    check(lambda x, t: F.huber_loss(x, t, reduction=reduction, delta=0.3), torch.randn(5, 2), torch.randn(5, 2))


@pytest.mark.filterwarnings("ignore:size_average")
def test_older_arguments():
    check(lambda x, t: F.mse_loss(x, t, size_average=False), torch.randn(5, 2), torch.randn(5, 2))
    check(lambda x, t: F.l1_loss(x, t, reduce=False), torch.randn(5, 2), torch.randn(5, 2))


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_targets_of_other_types_and_shapes():
    check(lambda x: F.mse_loss(x, torch.tensor([1, 0])), torch.randn(5, 2), train=False)
    check(lambda x, t: F.l1_loss(x, t), torch.randn(5, 2), torch.tensor([[1], [2], [0], [1], [3]]), train=False)
    check(lambda x: F.mse_loss(x, torch.zeros(2)), torch.randn(5, 2))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3), (2, 4, 3, 2), (4, )])
@pytest.mark.parametrize("options", [{}, {"weight": torch.tensor([0.5, 1.0, 2.0, 0.1])}, {"ignore_index": 2},
                                     {"weight": torch.tensor([0.5, 1.0, 2.0, 0.1]), "ignore_index": 1}], ids=str)
def test_classes(reduction, shape, options):
    target = labels(*(shape[:1] + shape[2:] if len(shape) > 1 else ()))
    if len(shape) == 1:
        target.fill_(3)
    if "weight" in options:
        ignored = {k: v for k, v in options.items() if k == "ignore_index"}

        def loss(fn):
            return lambda x, t, w: fn(x, t, weight=w, reduction=reduction, **ignored)

        check(lambda x, t, w: loss(F.cross_entropy)(x, t, w.detach()), torch.randn(shape), target, options["weight"])
        check(lambda x, t, w: loss(F.nll_loss)(x, t, w.detach()), torch.randn(shape), target, options["weight"])
    else:
        check(lambda x, t: F.cross_entropy(x, t, reduction=reduction, **options), torch.randn(shape), target)
        check(lambda x, t: F.nll_loss(F.log_softmax(x, -1), t, reduction=reduction, **options),
              torch.randn(shape), target)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_label_smoothing(reduction):
    check(lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=0.2), torch.randn(5, 4), labels(5))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3), (4, )])
def test_soft_targets(reduction, smoothing, shape):
    target = torch.softmax(torch.randn(shape), 1 if len(shape) > 1 else 0)
    check(lambda x: F.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing), torch.randn(shape))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, torch.rand(5, 2)])
def test_binary(reduction, weight):
    x, t = torch.rand(5, 2) * 0.8 + 0.1, torch.rand(5, 2)
    check(lambda x: F.binary_cross_entropy(x, t, weight, reduction=reduction), x)
    check(lambda x: F.binary_cross_entropy_with_logits(x, t, weight, reduction=reduction), torch.randn(5, 2))
    pos = torch.tensor([0.5, 2.0])
    check(lambda x: F.binary_cross_entropy_with_logits(x, t, weight, reduction=reduction, pos_weight=pos),
          torch.randn(5, 2))


@pytest.mark.parametrize("reduction", REDUCTIONS + ["batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.filterwarnings("ignore:reduction:")
def test_kl(reduction, log_target):
    target = torch.softmax(torch.randn(5, 4), 1)
    target = target.log() if log_target else target
    check(lambda x: F.kl_div(F.log_softmax(x, 1), target, reduction=reduction, log_target=log_target),
          torch.randn(5, 4))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("log_input", [True, False])
@pytest.mark.parametrize("full", [True, False])
def test_poisson(reduction, log_input, full):
    target = torch.tensor([0.0, 1, 2, 5, 3])
    check(lambda x: F.poisson_nll_loss(x, target, log_input, full, reduction=reduction), torch.rand(5) + 0.1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(5, 2), (5, 1), (5, )])
def test_gaussian(reduction, full, shape):
    target = torch.randn(5, 2)
    check(lambda x, v: F.gaussian_nll_loss(x, target, v, full=full, reduction=reduction), torch.randn(5, 2),
          torch.rand(shape) + 0.1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margins(reduction):
    check(lambda x: F.soft_margin_loss(x, signs, reduction=reduction), torch.randn(5, 2))
    check(lambda x: F.hinge_embedding_loss(x, signs, 0.7, reduction=reduction), torch.rand(5, 2))
    check(lambda x, y: F.margin_ranking_loss(x, y, signs, 0.3, reduction=reduction), torch.randn(5, 2),
          torch.randn(5, 2))
    check(lambda x, y: F.cosine_embedding_loss(x, y, signs[:, 0], 0.1, reduction=reduction), torch.randn(5, 3),
          torch.randn(5, 3))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("p", [2.0, 3.0])
@pytest.mark.parametrize("swap", [True, False])
def test_triplet(reduction, p, swap):
    check(lambda a, b, c: F.triplet_margin_loss(a, b, c, 0.9, p, swap=swap, reduction=reduction), torch.randn(5, 4),
          torch.randn(5, 4), torch.randn(5, 4))


def test_triplet_with_own_distance():
    loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1))
    check(loss, torch.randn(5, 4), torch.randn(5, 4), torch.randn(5, 4))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weight", [None, torch.rand(4)])
def test_multi_margin(reduction, p, weight):
    check(lambda x, t: F.multi_margin_loss(x, t, p, 0.8, weight, reduction=reduction), torch.randn(5, 4), labels(5))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_many_labels(reduction):
    target = torch.tensor([[3, 0, -1, 1], [0, -1, 2, 3], [-1, 1, 1, 1], [0, 1, 2, 3]])
    check(lambda x: F.multilabel_margin_loss(x, target, reduction=reduction), torch.randn(4, 4))
    check(lambda x: F.multilabel_soft_margin_loss(x, (target > 0).float(), reduction=reduction), torch.randn(4, 4))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("blank", [0, 4])
@pytest.mark.parametrize("joined", [False, True])
def test_ctc(reduction, blank, joined):
    lengths = [3, 1, 2]
    rows = [torch.randint(1, 4, (n, )) for n in lengths]
    targets = torch.cat(rows) if joined else nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)

    def loss(x):
        return F.ctc_loss(F.log_softmax(x, 2), targets, [8, 7, 6], lengths, blank, reduction)

    check(loss, torch.randn(8, 3, 5), rtol=1e-3, atol=1e-4)


def test_ctc_lengths_as_tensors():
    targets = torch.randint(1, 5, (3, 4))
    check(lambda x, n, m: F.ctc_loss(F.log_softmax(x, 2), targets, n, m, zero_infinity=True), torch.randn(8, 3, 5),
          torch.tensor([8, 2, 7]), torch.tensor([3, 4, 2]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("fn", [F.mse_loss, F.l1_loss, F.smooth_l1_loss])
def test_half(fn):
    check(fn, torch.randn(5, 2).half(), torch.randn(5, 2).half(), rtol=2e-2)
    target = labels(5)
    check(lambda x: F.cross_entropy(x, target), torch.randn(5, 4).half(), rtol=2e-2)


def test_implicit_losses_train():
    for loss, target in ((nn.CrossEntropyLoss(), labels(5)), (nn.MSELoss(), torch.randn(5, 4))):

        class Model(nn.Module):

            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 4)
                self.loss = loss

            def forward(self, x, t):
                y = self.layer(x)
                return y, self.loss(y, t)

        inner = Model()
        model = poptorch.trainingModel(inner, optimizer=torch.optim.SGD(inner.parameters(), lr=0.1))
        x = torch.randn(5, 3)
        first = model(x, target)[1]
        for _ in range(20):
            last = model(x, target)[1]
        assert last < first
