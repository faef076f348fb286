"""Products of matrices against torch."""

import pytest
import torch
from torch import nn

from support import check

LOOSE = {"rtol": 1e-3, "atol": 1e-4}


@pytest.mark.parametrize("a, b", [((3, 4), (4, 5)), ((4, ), (4, )), ((4, ), (4, 5)), ((3, 4), (4, )),
                                  ((2, 3, 4), (4, 5)),
                                  ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)),
                                  ((2, 3, 4), (4, ))], ids=str)
def test_matmul(a, b):
    check(torch.matmul, torch.randn(a), torch.randn(b))
    check(lambda x, y: x @ y, torch.randn(a), torch.randn(b))
    check(lambda x, y: x.matmul(y), torch.randn(a), torch.randn(b), train=False)


def test_integers():
    check(lambda x, y: x @ y, torch.randint(-9, 9, (3, 4)), torch.randint(-9, 9, (4, 5)), train=False)
    check(lambda x, y: x @ y, torch.randint(-9, 9, (3, 4)).int(), torch.randint(-9, 9, (4, 5)).int(), train=False)


@pytest.mark.parametrize("fn, shapes", [(torch.mm, ((3, 4), (4, 5))), (torch.bmm, ((2, 3, 4), (2, 4, 5))),
                                        (torch.mv, ((3, 4), (4, ))), (torch.dot, ((4, ), (4, ))),
                                        (torch.outer, ((3, ), (4, ))), (torch.inner, ((3, 4), (5, 4))),
                                        (torch.kron, ((2, 3), (3, 2))), (torch.vdot, ((4, ), (4, )))])
def test_products(fn, shapes):
    check(fn, *(torch.randn(s) for s in shapes))


@pytest.mark.parametrize("beta", [1, 0.5, 0])
@pytest.mark.parametrize("alpha", [1, 1.5, 0])
@pytest.mark.parametrize("fn, shapes", [(torch.addmm, ((3, 5), (3, 4), (4, 5))), (torch.addmm, ((5, ), (3, 4), (4, 5))),
                                        (torch.baddbmm, ((3, 5), (2, 3, 4), (2, 4, 5))),
                                        (torch.addbmm, ((3, 5), (2, 3, 4), (2, 4, 5))),
                                        (torch.addmv, ((3, ), (3, 4), (4, ))), (torch.addr, ((3, 4), (3, ), (4, )))])
def test_sums(fn, shapes, beta, alpha):
    if fn is torch.baddbmm and beta == 0:
        pytest.skip("torch 1.13 reads memory that it has not written")
    check(lambda a, b, c: fn(a, b, c, beta=beta, alpha=alpha), *(torch.randn(s) for s in shapes))


def test_out():
    check(lambda x, y: torch.matmul(x, y, out=torch.empty(3, 5)), torch.randn(3, 4), torch.randn(4, 5), train=False)


@pytest.mark.parametrize("shape", [(4, ), (3, 4), (2, 3, 4), (2, 2, 3, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape, bias):
    check(nn.Linear(4, 5, bias), torch.randn(shape))


def test_bilinear():
    check(nn.Bilinear(4, 3, 5), torch.randn(2, 6, 4), torch.randn(2, 6, 3), **LOOSE)
    check(nn.Bilinear(4, 3, 5, bias=False), torch.randn(4), torch.randn(3), **LOOSE)


@pytest.mark.parametrize("equation, shapes", [("ij,jk->ik", ((3, 4), (4, 5))), ("bij,bkj->bki", ((2, 3, 4), (2, 5, 4))),
                                              ("ii->i", ((3, 3), )), ("...ij->...ji", ((2, 3, 4), )),
                                              ("i,j", ((3, ), (4, ))),
                                              ("ij,jk,k->i", ((3, 2), (2, 3), (3, ))), ("ij->", ((3, 4), )),
                                              ("bhid,bhjd->bhij", ((2, 2, 3, 4), (2, 2, 5, 4)))])
def test_einsum(equation, shapes):
    check(lambda *x: torch.einsum(equation, *x), *(torch.randn(s) for s in shapes))


def test_einsum_of_lists():
    check(lambda x, y: torch.einsum("ij,jk->ik", [x, y]), torch.randn(3, 4), torch.randn(4, 5))
    check(lambda x, y: torch.einsum(x, [0, 1], y, [1, 2], [0, 2]), torch.randn(3, 4), torch.randn(4, 5))


def test_tensordot_and_chain():
    check(lambda x, y: torch.tensordot(x, y, dims=2), torch.randn(2, 3, 4), torch.randn(3, 4, 5))
    check(lambda x, y, z: torch.linalg.multi_dot([x, y, z]), torch.randn(2, 3), torch.randn(3, 4), torch.randn(4, 5))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cross(dim):
    check(lambda x, y: torch.cross(x, y, dim=dim), torch.randn(3, 3, 3), torch.randn(3, 3, 3))
    check(lambda x, y: torch.linalg.cross(x, y, dim=dim), torch.randn(3, 3, 3), torch.randn(3, 3, 3))


@pytest.mark.parametrize("ord", [None, "fro", 1, -1, float("inf")])
def test_matrix_norms(ord):
    check(lambda x: torch.linalg.norm(x, ord), torch.randn(3, 4))


@pytest.mark.parametrize("ord", [2, 1, 3, 0, float("inf")])
def test_vector_norms(ord):
    check(lambda x: torch.linalg.norm(x, ord), torch.randn(5))


def test_determinants_and_inverses():
    x = torch.randn(2, 3, 3) + 3 * torch.eye(3)
    check(torch.det, x, **LOOSE)
    check(torch.inverse, x, **LOOSE)
    check(torch.linalg.inv, x, **LOOSE)
    check(torch.linalg.slogdet, x, **LOOSE)
    check(torch.linalg.solve, x, torch.randn(2, 3, 2), **LOOSE)
    check(lambda x: torch.linalg.matrix_power(x, 3), x, rtol=1e-2, atol=1e-2)


def test_half():
    check(torch.matmul, torch.randn(3, 4).half(), torch.randn(4, 5).half(), rtol=1e-2, atol=1e-2)
    check(nn.Linear(4, 5).half(), torch.randn(3, 4).half(), rtol=1e-2, atol=1e-2)
    check(lambda x, y, z: torch.addmm(z, x, y), torch.randn(3, 4).half(), torch.randn(4, 5).half(),
          torch.randn(5).half(), rtol=1e-2, atol=1e-2)
