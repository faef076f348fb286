#!/usr/bin/env bash
# `ipu run` and `ipu show`: what they print and write, test data, misuse, hostile files. Usage: onnx_tools_test.sh [IPU].
# Skips where /usr/bin/python3 has no onnx, which makes the models. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
check_python onnx numpy "python3-onnx python3-numpy"
"$python" tests/onnx/make_models.py "$box" || { echo "0 passed, 1 failed"; exit 1; }
cd "$box" || exit 1

# array EXPRESSION: numpy's, with `load`.
array() { "$python" -c "import numpy as np; load = np.load; assert ($1)"; }

# ---- show ----

check "show: producer" exits 0 '^producer +make_models' show linear.onnx
check "show: format" exits 0 '^format +IR version 7, opset 13' show linear.onnx
check "show: inputs, without those that have a value" exits 0 '^inputs +x  float\[2,4\]$' show linear.onnx
check "show: outputs" exits 0 '^outputs +y  float\[2,3\]$' show linear.onnx
check "show: ops by count" exits 0 '^ops +MatMul +1$' show linear.onnx
check "show: parameters" exits 0 '^parameters +12 in 1 initializers: 48 B' show linear.onnx
check "show: operations" exits 0 '^operations +48 FLOP per run' show linear.onnx
check "show: memory" exits 0 '^memory +48 B of parameters; .* planned in' show linear.onnx
check "show: metadata" exits 0 '^ +task: testing' show linear.onnx
check "show: names of dimensions" exits 0 '^inputs +x  float\[N,3\]' show add.onnx
check "show: what is not known says why" exits 0 '^operations +not known: .*N' show add.onnx
check "show: --shape makes it known" exits 0 '^operations +24 FLOP per run' show add.onnx --shape N=8
check "show: a dimension by its place" exits 0 '^operations +[0-9]+ FLOP' show add.onnx -s x.0=8 -s y.0=8
check "show: any shape" exits 0 '^inputs +x  float of any shape' show any_shape.onnx
check "show: ops that are not supported" exits 0 'my.ops.Wobble +1  not supported' show strange.onnx
check "show: JSON" json 'd["inputs"] == [{"name": "x", "type": "float", "shape": ["N", 3], "sequence": False,
    "optional": False}, {"name": "y", "type": "float", "shape": ["N", 3], "sequence": False, "optional": False}]
    and d["metadata"]["author"] == "nobody" and d["work"]["operations"] is None and "N" in d["work"]["why"]' \
    show --json add.onnx
check "show: JSON of ops" json '[o["supported"] for o in d["ops"]] == [True, False] and d["ops"][1]["domain"] == "my.ops"' \
    show --json strange.onnx
check "show: JSON of work" json 'd["work"]["operations"] == 24 and d["work"]["planned_bytes"] >= 288' \
    show --json add.onnx --shape N=8

# ---- run ----

check "run: kernels" exits 0 '^matmul +[a-z]+ +1 +1 +48 +0 B +a:plain b:plain out:plain$' run --kernels linear.onnx
check "run: kernels as JSON" exits 0 '"implementation": "[a-z]+"' run --kernels --json linear.onnx
check "run: random inputs are said to be" exits 0 '^input +x  float\[2,4\]  random$' run linear.onnx
check "run: outputs in summary" exits 0 '^ +least [0-9.]+, most [0-9.]+, mean [0-9.]+$' run linear.onnx
check "run: time of a run" exits 0 '^host .* per run, [0-9]+ threads?; compilation and first run' run linear.onnx
check "run: median of several" exits 0 'median of 5; least' run linear.onnx --repeat 5
check "run: threads" exits 0 ', 1 thread;' run linear.onnx --threads 1
check "run: the chip" exits 0 '^gc200 .*: [0-9]+ cycles \(compute [0-9]+, .*modelled$' run linear.onnx
check "run: another chip" exits 0 '^bow +.* cycles' run linear.onnx --target bow
check "run: it fits" exits 0 'of 624 KiB on the fullest tile: it fits' run linear.onnx
check "run: it does not fit" exits 0 'it does not fit, 4 of 4 tiles are over-full' run wide.onnx --target tiny
check "run: dimensions that are not told are 1" exits 0 '^input +x  float\[1,3\]  random' run add.onnx
check "run: --shape" exits 0 '^output +z  float\[8,3\]' run add.onnx --shape N=8
check "run: an input's shape is that of others, too" exits 0 '^input +y  float\[2,3\]  random' run add.onnx -i x=x.npy
check "run: integers are 0 to 9" json 'd["inputs"][0]["least"] >= 0 and d["inputs"][0]["most"] <= 9
    and d["inputs"][0]["most"] > 5 and d["inputs"][0]["type"] == "int64"' run --json ints.onnx
check "run: bools are both" json 'd["inputs"][1]["least"] == 0 and d["inputs"][1]["most"] == 1' run --json ints.onnx
check "run: equal seeds, equal inputs" json 'd["inputs"][0]["first"][0] == 0.883310794830322' run -S 0 --json linear.onnx
check "run: other seeds, other inputs" json 'd["inputs"][0]["first"][0] != 0.883310794830322' run -S 1 --json linear.onnx
check "run: .npy in and out" exits 0 '^input +x  float\[2,3\]  x.npy' run add.onnx -i x=x.npy -i y=ones.npy -o z=z.npy
check "run: what numpy says of it" array '(load("z.npy") == load("x.npy") + 1).all() and load("z.npy").dtype == np.float32'
check "run: .npz by key and by name" exits 0 '^input +y  float\[2,3\]  both.npz:ones' \
    run add.onnx -i x=both.npz -i y=both.npz:ones -o all.npz -o z=one.npz
check "run: all outputs in an .npz" array '(load("all.npz")["z"] == load("z.npy")).all() and load("one.npz").files == ["z"]'
check "run: .pb in, and no name for the only one" exits 0 '^input +x  float\[2,4\]  good/test_data_set_0/input_0.pb' \
    run linear.onnx -i good/test_data_set_0/input_0.pb --output y.npy
check "run: an output without its name" array 'load("y.npy").shape == (2, 3)'
check "run: a tensor from within" exits 0 '^anchor +h  float\[2,3\]$' run linear.onnx -i good/test_data_set_0/input_0.pb --anchor h \
    -a x -a h -a y -o h=h.npy -o y=y.npy -o anchored.npz
check "run: what numpy says of it" array 'np.allclose(load("h.npy"), load("anchored.npz")["x"] @ np.arange(12).reshape(4, 3))'
check "run: each is given once" array 'sorted(load("anchored.npz").files) == ["h", "x", "y"]'
check "run: tensors from within as JSON" json '[(o["name"], o.get("anchor")) for o in d["outputs"]] == [("y", None), ("w", True), ("h", True)]' \
    run linear.onnx -a w -a h --json
check "run: 64-bit integers are exact" json 'd["outputs"][0]["first"][0] == 2 * (2**60 + 1)' run --json ints.onnx -i i=big.npy
check "run: an input that decides a shape" exits 0 '^output +y  float\[3,2\]' run reshape.onnx -i x=six.npy -i shape=shape.npy
check "run: a sequence" exits 0 '^ +\[1\]  float\[1,1\]$' run sequence.onnx -i sequence.pb -o items.npz
check "run: its items in an .npz" array 'load("items.npz").files == ["t.0", "t.1"] and load("items.npz")["t.0"].tolist() == [1, 2]'
check "run: JSON of a sequence" json '[i["shape"] for i in d["outputs"][0]["items"]] == [[2], [1, 1]]' \
    run sequence.onnx -i sequence.pb --json
check "run: what is not finite is counted" exits 0 'least 0, most 1, mean 0.5  2 not finite' run log.onnx -i log.npy
check "run: JSON has no NaN" json 'd["outputs"][0]["first"][1] is None and d["outputs"][0]["not_finite"] == 2' \
    run --json log.onnx -i log.npy
check "run: JSON" json 'd["modelled"]["fits"] and d["modelled"]["cycles"]["total"] > 0 and d["seconds"]["runs"] == 3
    and 0 < d["seconds"]["least"] <= d["seconds"]["median"] and d["inputs"][0]["random"]' run -r 3 --json linear.onnx
check "run: a profile" exits 0 '^host' run linear.onnx --profile deep --repeat 4
check "run: its steps have measured times" "$python" -c 'import json
steps = json.load(open("deep/profile.json"))["steps"]
assert any("matmul" in s["name"] and s["measured"]["runs"] == 5 and s["measured"]["seconds"] > 0 for s in steps), steps'
check "run: its text" grep -q 'kernel matmul' deep/profile.txt

# ---- run over several IPUs ----

check "ipus: stages" exits 0 '^ipus +4: 1 replica of 4 stages, a run has 1 batch of each$' run deep.onnx --ipus 4 --pipeline-stages 4
check "ipus: stages alone" exits 0 '^ipus +4: 1 replica of 3 stages' run deep.onnx --pipeline-stages 3
check "ipus: random inputs hold all batches" exits 0 '^input +x  float\[16,64\]  random$' \
    run deep.onnx --ipus 8 --pipeline-stages 4 --batches 4 --shape N=2
check "ipus: and those of a file with the same name of a dimension" exits 0 '^input +y  float\[2,3\]  random' \
    run add.onnx -i x=x.npy --batches 2
check "ipus: the results" exits 0 '^output +y  float\[12,64\]' run deep.onnx -n 4 --pipeline-stages 2 -b 3 -t 1 -i x=rows.npy -o pipe.npy
check "ipus: are those of one" exits 0 '^output +y  float\[12,64\]' run deep.onnx -b 6 -t 1 -i x=rows.npy -o one.npy
check "ipus: bit for bit" array '(load("pipe.npy") == load("one.npy")).all() and abs(load("one.npy")).max() > 0.1'
check "ipus: outputs of the last batches" exits 0 '^output +y  float\[4,64\]' \
    run deep.onnx -n 4 --pipeline-stages 2 -b 3 -t 1 -i x=rows.npy --output-mode final -o final.npy
check "ipus: are the last" array '(load("final.npy") == load("one.npy")[8:]).all()'
check "ipus: of every third batch" exits 0 '^output +y  float\[4,64\]' run deep.onnx -b 6 -t 1 -i x=rows.npy --output-mode every:3 -o every.npy
check "ipus: are those" array '(load("every.npy") == load("one.npy")[[4, 5, 10, 11]]).all()'
check "ipus: their sum" exits 0 '^output +y  float\[2,64\]' run deep.onnx -b 6 -t 1 -i x=rows.npy --output-mode sum -o sum.npy
check "ipus: is the sum" array 'np.allclose(load("sum.npy"), load("one.npy").reshape(6, 2, 64).sum(0), 0, 1e-5)'
check "ipus: their mean" exits 0 '^output +y  float\[2,64\]' run deep.onnx -b 6 -t 1 -i x=rows.npy --output-mode mean -o mean.npy
check "ipus: is the mean" array 'np.allclose(load("mean.npy"), load("one.npy").reshape(6, 2, 64).mean(0), 0, 1e-6)'
check "ipus: no such mode" refused 2 '--output-mode last: expected all, every:P, final, sum or mean$' run deep.onnx -b 6 --output-mode last
check "ipus: no such period" refused 2 'option --output-mode: "0" is no number' run deep.onnx -b 6 --output-mode every:0
check "ipus: a period that does not divide" refused 1 'divides the 6 batches of a run, found 4' run deep.onnx -b 6 --output-mode every:4
check "ipus: JSON" json 'd["ipus"] == {"ipus": 4, "pipeline_stages": 2, "replicas": 2, "batches": 3}' \
    run deep.onnx -n 4 --pipeline-stages 2 -b 3 --json
check "ipus: one alone is not told" bash -c '"$0" run deep.onnx > alone.txt && ! grep ^ipus alone.txt' "$ipu"
check "ipus: a profile of all" exits 0 '^ipus' run deep.onnx --pipeline-stages 4 -b 4 --profile wide
check "ipus: has the steps of each" "$python" -c 'import json
steps = json.load(open("wide/profile.json"))["steps"]
assert sum("matmul" in s["name"] for s in steps) >= 4, [s["name"] for s in steps]'
check "ipus: test data" exits 0 '^1 passed' run linear.onnx --test good/test_data_set_0 --ipus 1
check "ipus: fewer than stages" refused 2 '--ipus 2: expected a power of two from 4 on: 3 stages take 4 \(rounded up\)$' \
    run deep.onnx -n 2 --pipeline-stages 3
check "ipus: no power of two" refused 2 '--ipus 3: expected 1 or a power of two$' run deep.onnx -n 3
check "ipus: more than the system has" refused 1 'target m2000: 8 IPUs: it has 4' run deep.onnx -n 8 --target m2000
check "ipus: batches that do not divide" refused 1 'input "x": a run has 5 batches \(batches 5 x replicas 1\).*multiple of 5, found 12 in \[12,64\]' \
    run deep.onnx -b 5 -i x=rows.npy
check "ipus: more stages than ops" refused 1 'option stages: 2 stages of a network of 1 ops' run linear.onnx --pipeline-stages 2

# ---- run with a cache ----

export IPU_CACHE_DIR=$box/cache
check "cache: the first run compiles" json 'd["compiled_before"] is False' run --json reshape.onnx -i x=six.npy -i shape=shape.npy
check "cache: the second does not" json 'd["compiled_before"] and d["outputs"][0]["shape"] == [3, 2] and d["modelled"]["cycles"]["total"] >= 0' \
    run --json reshape.onnx -i x=six.npy -i shape=shape.npy
check "cache: it says so" exits 0 '^host .*; compiled before; first run' run reshape.onnx -i x=six.npy -i shape=shape.npy
check "cache: other shapes are compiled" json 'd["compiled_before"] is False' run --json add.onnx --shape N=8
check "cache: kernels of what was compiled before" exits 0 '^add +' run --kernels add.onnx --shape N=8
check "cache: and its profile" exits 0 '; compilation and first run' run add.onnx --shape N=8 --profile again
check "cache: and the same again" exits 0 '; compiled before; first run' run add.onnx --shape N=8 --profile again
check "cache: tests take from it" exits 0 '^1 passed' run linear.onnx --test good/test_data_set_1
unset IPU_CACHE_DIR

# ---- run --test ----

check "test: all sets pass" exits 0 '^3 passed, 0 failed$' run linear.onnx --test good
check "test: in the order of their numbers" exits 0 '^pass good/test_data_set_10$' run linear.onnx --test good
check "test: one set" exits 0 '^1 passed, 0 failed$' run linear.onnx --test good/test_data_set_1
check "test: the first difference" exits 1 \
    '^FAIL mixed/test_data_set_1: output "y" at \[1,2\]: expected [0-9.]+, found [0-9.]+, tolerance 0.0[0-9]+; 1 of 6 differ' \
    run linear.onnx --test mixed
check "test: those after it are counted" exits 1 '^1 passed, 1 failed$' run linear.onnx --test mixed
check "test: tolerances" exits 0 '^2 passed' run linear.onnx --test mixed --atol 1.5
check "test: a tolerance that is too small" exits 1 '^2 passed, 1 failed' run linear.onnx --test good --rtol 1e-5
check "test: shapes differ" exits 1 'output "y": expected float\[3,2\], found float\[2,3\]' run linear.onnx --test shapes
check "test: too many inputs" exits 1 'there is input_1.pb, but the model has 1 inputs' run linear.onnx --test many
check "test: sequences" exits 0 '^1 passed' run sequence.onnx --test same
check "test: sequences differ" exits 1 'expected a sequence of 1, found a sequence of 2' run sequence.onnx --test shorter
check "test: no output" exits 1 'there is no output_0.pb' run linear.onnx --test hollow
check "test: JSON" json 'd["passed"] == 1 and d["failed"] == 1 and d["tests"][1]["index"] == "[1,2]" and d["tests"][1]["output"] == "y"
    and d["tests"][1]["differing"] == 1 and abs(d["tests"][1]["expected"] - d["tests"][1]["found"] - 1) < 1e-3
    and d["tests"][0] == {"folder": "mixed/test_data_set_0", "passed": True}' run linear.onnx --test mixed --json
check "test: no data" refused 1 'no test data in deep: expected output_0.pb, or folders test_data_set_\*' run linear.onnx -x deep
check "test: no folder" refused 1 'cannot read none: No such file' run linear.onnx --test none

# ---- misuse ----

check "no model" refused 2 'ipu run: expected MODEL.onnx' run
check "no such file" refused 1 'none.onnx' run none.onnx
check "no ONNX file" refused 1 'x.npy' run x.npy
check "no ONNX file to show" refused 1 'x.npy' show x.npy
check "an op that is not supported" refused 1 'Wobble' run strange.onnx
check "no such input" refused 1 'no input is called "q"; there are: x, y' run add.onnx --input q=x.npy
check "no such output" refused 1 'no output is called "q"; there are: z' run add.onnx --output q=x.npy
check "no such tensor" refused 1 'its main graph has no tensor "hh" \(did you mean "h"\?\)' run linear.onnx --anchor hh
check "tensors of test data" refused 2 'without --input, --output, --anchor' run linear.onnx --test good --anchor h
check "an input without a name" refused 1 'expected NAME=FILE; there are: x, y' run add.onnx --input x.npy
check "no such array" refused 1 'holds no array "q"; it holds "x", "ones"' run add.onnx --input x=both.npz:q
check "an input of another type" refused 1 'double' run add.onnx -i x=double.npy -i y=double.npy
check "an input of another shape" refused 1 'input "x" should have shape \[2,4\], found \[2,5\]' run linear.onnx -i wrong.npy
check "an input of no told shape" refused 1 'input "x" is float of any shape, .*give it with --input x=FILE' run any_shape.onnx
check "a sequence for which there are no numbers" refused 1 'is sequence of float, .*--input s=FILE' run sequence.onnx
check "a sequence in an .npy" refused 1 'is a sequence, which s.npy cannot hold; an .npz can' run sequence.onnx -i sequence.pb -o s.npy
check "an output that cannot be written" refused 1 'no/folder' run linear.onnx --output y=no/folder/y.npy
check "a profile that cannot be written" refused 1 'cannot make the folder x.npy/folder: Not a directory' run linear.onnx --profile x.npy/folder
check "--shape without a number" refused 2 'expected NAME=NUMBER, found "N"' run add.onnx --shape N
check "--shape with something else" refused 2 'expected NAME=NUMBER, found "N=-1"' show add.onnx --shape N=-1
check "--shape of no dimension" refused 1 '--shape M=1: no input of add.onnx has a dimension of that name; there are: N' \
    show add.onnx --shape M=1
check "--repeat 0" refused 2 'repeat' run linear.onnx --repeat 0
check "--threads x" refused 2 'threads' run linear.onnx --threads x
check "no such target" refused 1 'gc201' run linear.onnx --target gc201
check "--test with --input" refused 2 'has inputs and outputs of its own' run linear.onnx --test good --input x=x.npy
check "--rtol without --test" refused 2 'are for --test' run linear.onnx --rtol 1
check "--rtol x" refused 2 'expected a number of 0 or more' run linear.onnx --test good --rtol x

check_end
