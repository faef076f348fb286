"""Views, orders, joining and cutting, padding, and images as columns."""
import pytest
import torch
import torch.nn.functional as F

from support import check

SHAPES = {
    "view": lambda x: x.view(4, 6),
    "view_infer": lambda x: x.view(-1, 3),
    "reshape_of_transposed": lambda x: x.transpose(0, 2).reshape(6, 4),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "squeeze": lambda x: x[:1].squeeze(),
    "squeeze_dim": lambda x: x[:1].squeeze(0),
    "squeeze_nothing": lambda x: x.squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "ravel": torch.ravel,
    "permute": lambda x: x.permute(2, 0, 1),
    "permute_negative": lambda x: x.permute(-1, 0, -2),
    "transpose": lambda x: x.transpose(-1, 0),
    "t": lambda x: x[0].t(),
    "T": lambda x: x.mT,
    "movedim": lambda x: x.movedim((0, 1), (2, 0)),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "contiguous": lambda x: x.transpose(0, 1).contiguous() * 2,
    "clone": lambda x: x.clone() * 2,
    "expand": lambda x: x[:, :1].expand(-1, 5, 4),
    "expand_more": lambda x: x.expand(3, 2, 3, 4),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat_more": lambda x: x.repeat(2, 1, 1, 2),
    "repeat_none": lambda x: x.repeat(1, 1, 1),
    "tile": lambda x: x.tile(2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
    "repeat_interleave_flat": lambda x: torch.repeat_interleave(x, 3),
    "flip": lambda x: x.flip(0, -1),
    "fliplr": torch.fliplr,
    "roll": lambda x: x.roll(1),
    "roll_dims": lambda x: x.roll((1, -5), (0, 2)),
    "rot90": lambda x: x.rot90(1, (1, 2)),
    "rot90_thrice": lambda x: x.rot90(-1, (0, 2)),
    "rot180": lambda x: x.rot90(2, (0, 2)),
    "cat": lambda x: torch.cat([x, x * 2, x[:, :1]], dim=1),
    "cat_many": lambda x: torch.cat([x * i for i in range(40)], dim=-1),
    "cat_with_empty": lambda x: torch.cat([x, torch.zeros(0)], dim=1),
    "stack": lambda x: torch.stack([x, x * 2], dim=-1),
    "hstack": lambda x: torch.hstack([x, x * 2]),
    "dstack": lambda x: torch.dstack([x, x * 2]),
    "chunk": lambda x: x.chunk(2, dim=2),
    "chunk_uneven": lambda x: x.chunk(2, dim=1),
    "split": lambda x: x.split(3, dim=2),
    "split_sizes": lambda x: x.split([1, 2], dim=1),
    "tensor_split": lambda x: x.tensor_split((1, 3), dim=2),
    "unbind": lambda x: x.unbind(1),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "unfold_apart": lambda x: x.unfold(1, 1, 2),
    "unfold_aside": lambda x: x.unfold(2, 2, 2),
    "as_strided": lambda x: x.as_strided((2, 3), (1, 4), 2),
    "as_strided_plain": lambda x: x.as_strided((3, 4), (4, 1), 12),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "diagonal_first": lambda x: x.diagonal(),
    "diag": lambda x: x[0].diag(),
    "diag_vector": lambda x: x[0, 0].diag(-1),
    "diag_embed": lambda x: x.diag_embed(),
    "diag_embed_offset": lambda x: x.diag_embed(1, 0, 2),
    "diagflat": lambda x: x[0, :2].diagflat(),
    "trace": lambda x: x[0].trace(),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "block_diag": lambda x: torch.block_diag(x[0], x[1, :2], x[0, 0]),
    "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"),
    "cartesian_prod": lambda x: torch.cartesian_prod(x[0, 0], x[0, :, 0]),
    "combinations": lambda x: torch.combinations(x[0, 0]),
    "combinations_again": lambda x: torch.combinations(x[0, 0], 3, with_replacement=True),
    "tensordot": lambda x: torch.tensordot(x, x * 2, dims=([2, 0], [2, 0])),
    "atleast_3d": lambda x: torch.atleast_3d(x[0]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name):
    torch.manual_seed(1)
    check(SHAPES[name], torch.randn(2, 3, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.int64, torch.bool, torch.uint8])
def test_types(dtype):
    x = torch.arange(12).reshape(3, 4).to(dtype)
    check(lambda x: (x.t(), torch.cat([x, x]), x.flip(1), x.tril(), F.pad(x, (1, 0)), x.expand(2, 3, 4), x.roll(1, 0)),
          x, train=False)


def test_cat_of_types():
    check(lambda x, i: torch.cat([i, x], 1), torch.randn(2, 3), torch.arange(4).reshape(2, 2))


def test_detach():
    check(lambda x: x.detach() * x, torch.randn(3))


def test_copy_from():
    check(lambda x, y: y.copy_(x), torch.randn(3), torch.zeros(2, 3), train=False)


def test_repeats_of_each():
    repeats = torch.tensor([2, 0, 1])
    check(lambda x: x.repeat_interleave(repeats, dim=0), torch.randn(3, 2))
    check(lambda x, n: torch.repeat_interleave(x, n, dim=1, output_size=3), torch.randn(2, 3), repeats)


def test_unknown_repeats():
    import poptorch
    with pytest.raises(poptorch.Error, match="repeat_interleave.*output_size"):
        check(lambda x, n: x.repeat_interleave(n, dim=0), torch.randn(3, 2), torch.tensor([2, 0, 1]), train=False)


PADS = {
    "constant": (lambda x: F.pad(x, (1, 2, 0, 1), value=1.5), (2, 3, 4)),
    "constant_negative": (lambda x: F.pad(x, (-1, 2)), (2, 3, 4)),
    "zero": (torch.nn.ZeroPad2d(2), (1, 2, 3, 4)),
    "reflect1": (torch.nn.ReflectionPad1d((2, 1)), (2, 3, 4)),
    "reflect2": (torch.nn.ReflectionPad2d((2, 1, 0, 2)), (1, 2, 3, 4)),
    "reflect3": (torch.nn.ReflectionPad3d(1), (1, 2, 3, 4, 2)),
    "replicate1": (torch.nn.ReplicationPad1d((2, 5)), (2, 3, 4)),
    "replicate2": (torch.nn.ReplicationPad2d((2, 1, 0, 4)), (2, 3, 4)),
    "replicate3": (torch.nn.ReplicationPad3d(2), (1, 2, 3, 4, 2)),
    "circular1": (lambda x: F.pad(x, (3, 1), mode="circular"), (2, 3, 4)),
    "circular2": (lambda x: F.pad(x, (3, 1, 2, 0), mode="circular"), (2, 3, 4, 4)),
}


@pytest.mark.parametrize("name", PADS)
def test_pad(name):
    f, shape = PADS[name]
    torch.manual_seed(1)
    check(f, torch.randn(shape))


FOLDS = {
    "unfold": (lambda x: F.unfold(x, 2), (2, 3, 4, 5)),
    "unfold_all": (lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 2), stride=(1, 2)), (2, 3, 4, 5)),
    "unfold_image": (lambda x: F.unfold(x, 2, padding=1), (3, 4, 5)),
    "fold": (lambda x: F.fold(x, (4, 5), 2), (2, 12, 12)),
    "fold_all": (lambda x: F.fold(x, (4, 5), (2, 3), dilation=(2, 1), padding=(1, 2), stride=(1, 2)), (2, 18, 16)),
    "fold_image": (lambda x: F.fold(x, (4, 5), 2, padding=1), (12, 30)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (2, 8, 2, 3)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 3), (2, 2, 6, 3)),
}


@pytest.mark.parametrize("name", FOLDS)
def test_fold(name):
    f, shape = FOLDS[name]
    torch.manual_seed(1)
    check(f, torch.randn(shape))


def test_without_gradients_in_torch():
    check(lambda x: F.channel_shuffle(x, 2), torch.randn(2, 6, 2, 3), train=False)
    check(lambda x: torch.vander(x), torch.randn(4), train=False)
