"""What our writer says about ONNX against onnx's own library.

check.py files FOLDER            onnx.checker accepts every file, shapes and types included
check.py types INC               the table of types that ONNX ops take is that of their schemas
check.py same LIST FOLDER        FOLDER/i.onnx says all that the i-th file of LIST says
"""
import glob
import os
import re
import sys

import onnx
from onnx import defs

LETTERS = {"f": "float", "d": "double", "h": "float16", "b": "bfloat16",
           "1": "int8", "2": "int16", "4": "int32", "8": "int64",
           "A": "uint8", "B": "uint16", "C": "uint32", "D": "uint64", "L": "bool"}


def files(folder):
    names = sorted(glob.glob(os.path.join(folder, "*.onnx")))
    for path in names:
        try:
            model = onnx.load(path, load_external_data=False)
            if not model.graph.output:
                raise ValueError("it has no outputs")
            is_whole = not os.path.exists(path + ".data")
            onnx.checker.check_model(model if is_whole else path, full_check=True)
        except Exception as error:  # whatever its library raises is a finding
            yield f"{os.path.basename(path)}: {' '.join(str(error).split())[:300]}"
    if not names:
        yield "there are no files"


def taken(op, opset):
    """Letters of the types that the main operand of an op takes; "" before there was such an op."""
    try:
        schema = defs.get_schema(op, opset)
    except defs.SchemaError:
        return ""
    operands = schema.inputs or schema.outputs
    types = set(operands[1 if op == "Where" else 0].types)
    if op == "Pow":  # of which we know one type for both
        types &= set(operands[1].types)
    names = {f"tensor({LETTERS[letter]})": letter for letter in LETTERS}
    return "".join(sorted(names[t] for t in types if t in names))


def types(table):
    rows = re.findall(r'^TAKES\((\w+), "(\w*)", (\d+), "(\w*)"\)', open(table, encoding="utf-8").read(), re.M)
    for op, first, since, later in rows:
        for opset in range(13, 18):
            says = later if int(since) and opset >= int(since) else first
            if "".join(sorted(says)) != taken(op, opset):
                yield f"{op} in opset {opset}: the table has {says!r}, the schema {taken(op, opset)!r}"
    if not rows:
        yield "the table is empty"


def same(listed, folder):
    paths = open(listed, encoding="utf-8").read().split("\n")[:-1]
    for i, path in enumerate(paths):
        if onnx.load(path) != onnx.load(os.path.join(folder, f"{i}.onnx")):
            yield f"{path} is another file once it is saved"
    if not paths:
        yield "there are no files"


findings = list({"files": files, "types": types, "same": same}[sys.argv[1]](*sys.argv[2:]))
print("\n".join(findings))
sys.exit(bool(findings))
