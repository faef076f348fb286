"""Special functions. Half is computed in float."""

from __future__ import annotations

from openipu.network import Value

from .cast import as_result, promoted
from .registry import op

# ---- the error function ----


@op("aten::erfinv")
def erfinv(g, node, self):
    return g.emit("erfinv", [as_result(g, node, self)])


@op("aten::special_ndtri")
def ndtri(g, node, self):
    return g.emit("ndtri", [as_result(g, node, self)])


@op("aten::special_erfcx")
def erfcx(g, node, self):
    return g.emit("erfcx", [as_result(g, node, self)])


@op("aten::special_log_ndtr")
def log_ndtr(g, node, self):
    return g.emit("log_ndtr", [as_result(g, node, self)])


# ---- the gamma function ----


@op("aten::lgamma")
def lgamma(g, node, self):
    return g.emit("lgamma", [as_result(g, node, self)])


@op("aten::mvlgamma")
def mvlgamma(g, node, self, p):
    return g.emit("mvlgamma", [as_result(g, node, self)], p=p)


@op("aten::digamma", "aten::special_digamma")
def digamma(g, node, self):
    return g.emit("digamma", [as_result(g, node, self)])


@op("aten::polygamma", "aten::special_polygamma")
def polygamma(g, node, n, self):
    if isinstance(n, Value):  # the method and the one in place take the tensor first
        n, self = self, n
    return g.emit("polygamma", [as_result(g, node, self)], order=n)


# ---- modified Bessel functions of the first kind ----


@op("aten::i0", "aten::special_i0")
def i0(g, node, self):
    return g.emit("i0", [as_result(g, node, self)])


@op("aten::special_i0e")
def i0e(g, node, self):
    return g.emit("i0e", [as_result(g, node, self)])


@op("aten::special_i1")
def i1(g, node, self):
    return g.emit("i1", [as_result(g, node, self)])


@op("aten::special_i1e")
def i1e(g, node, self):
    return g.emit("i1e", [as_result(g, node, self)])


# ---- common divisors ----


@op("aten::gcd")
def gcd(g, node, self, other):
    return g.emit("gcd", promoted(g, self, other))


@op("aten::lcm")
def lcm(g, node, self, other):
    return g.emit("lcm", promoted(g, self, other))
