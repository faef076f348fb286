"""The table of ops of torch: what its rows name is there, in libipu and in torch."""

from __future__ import annotations

import openipu
import pytest
import torch
from openipu.network import op_info
from openipu.optable import PROMOTE, Table, row

from poptorch._ops import registry
from poptorch._ops.table import TABLE
from support import check, emitted

ROWS = {name: found for table in registry.TABLES for name, found in table.items()}
NAMES = [name for name in ROWS if isinstance(name, str)]


def schemas(name):
    """The arguments of the overloads of an op, those of them that a row with this name is for."""
    packet, _, overload = name.partition(".")
    found = torch._C._jit_get_schemas_for_operator(packet)
    return [[a.name for a in s.arguments] for s in found if not overload or s.overload_name == overload]


def test_libipu_has_what_rows_name():
    assert TABLE in registry.TABLES and len(ROWS) >= 120
    assert [problem for table in registry.TABLES for problem in table.check()] == []


@pytest.mark.parametrize("name", NAMES)
def test_torch_has_what_rows_name(name):
    known = schemas(name)
    if not known:
        pytest.skip(f"torch {torch.__version__} has no {name}")
    arguments = [p.name for p in ROWS[name].parameters]
    ours = set(arguments)
    for overload in known:
        if not ours <= set(overload):
            continue
        assert [a for a in overload if a in ours] == arguments, "the order of positional arguments"
        break
    else:
        pytest.fail(f"no overload of {name} has all of {arguments}: {known}")


def test_each_row_is_the_handler_of_its_op():
    for name in ROWS:
        handler = registry.OPS[name] if isinstance(name, str) else registry.FUNCTIONS[name]
        assert handler.emit.__qualname__.startswith("_of_row"), name


def test_no_op_has_two_handlers():
    with pytest.raises(ValueError, match="aten::relu has two handlers, of poptorch._ops.registry and test_ops_table"):

        @registry.op("aten::relu")
        def relu(g, node, self):
            return self


def test_of_a_call():
    x = torch.tensor([[-1.5, 2, 0.25]])
    assert emitted(lambda v: torch.nn.functional.leaky_relu(v, 0.5), x) == ["leaky_relu"]
    assert emitted(lambda v: v.isinf(), x) == ["isinf"]
    assert emitted(lambda v: v.isinf(), x.int()) == ["expand"]  # nothing is asked of integers
    assert emitted(lambda v: v.floor(), x.int()) == []
    check(lambda v: v.topk(1, sorted=False)[0], x)


@pytest.mark.parametrize("f", [lambda v: v.cumsum(0), lambda v: v.softmax(0), lambda v: v.log_softmax(-1), lambda v: v.cumprod(0)])
def test_scalars_are_vectors_for_ops_along_an_axis(f):
    check(f, torch.tensor(1.5))


def test_arguments_that_a_row_lacks_are_told():
    handler = registry.find("aten::leaky_relu")
    assert handler.unknown((1, 2), {}) == [] and handler.unknown((1, 2, 3), {}) == ["number 3"]
    assert handler.unknown((1, ), {"slope": 1}) == ["slope"] and handler.unknown((1, ), {"negative_slope": 1}) == []


def test_tables_of_others():
    table = Table({"mine::plus mine::add": row("add", "a b", cast=PROMOTE)})
    assert list(table) == ["mine::plus", "mine::add"] and op_info(table["mine::add"].op).name == "add"
    with pytest.raises(openipu.Error, match="mine::add is in the table twice"):
        Table({"mine::add": row("add", "a b"), "mine::plus mine::add": row("add", "a b")})
