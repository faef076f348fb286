#!/usr/bin/env bash
# `ipu train` on several IPUs: replicas, stages, sharded and streamed optimizers give the same networks; what is shown of
# each IPU, what a hard partition refuses, what does not go together.
# Usage: train_ipus_test.sh [IPU]. Skips where /usr/bin/python3 has no numpy and onnx. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
check_python onnx numpy "python3-onnx python3-numpy"
check_alone

equal() { cmp "$1" "$2"; }

# ---- data ----

check "digits are drawn" "$ipu" dataset digits --out few --count 960 --test-count 100 --seed 4
train=(train --data few --threads 1 --epochs 1 --batch-size 4 --optimizer adam)
matches() { grep -qE -- "$2" "$1" || { cat "$1"; return 1; }; }

# ---- numbers ----

check "four replicas" exits 0 '^top1 score' "${train[@]}" --replicas 4 --no-fold --save four.onnx
cp out four.txt
check "four IPUs are four replicas" exits 0 '^top1 score' "${train[@]}" --ipus 4 --no-fold --save again.onnx
check "four IPUs: the same bits" equal four.onnx again.onnx
check "a divided optimizer" exits 0 '^top1 score' "${train[@]}" --ipus 4 --no-fold --shard-optimizer --save parts.onnx
check "a divided optimizer: the same bits" equal four.onnx parts.onnx
check "an optimizer in streaming memory" exits 0 '^top1 score' "${train[@]}" --ipus 4 --no-fold --off-chip optimizer --save away.onnx
check "an optimizer in streaming memory: the same bits" equal four.onnx away.onnx
check "both" exits 0 '^top1 score' "${train[@]}" --ipus 4 --no-fold --shard-optimizer --off-chip optimizer --save both.onnx
check "both: the same bits" equal four.onnx both.onnx
check "folded replicas" json '0 < d["epochs"][0]["loss"] < 1.5' "${train[@]}" --ipus 4 --json
check "a sum is a mean at a higher rate" exits 0 '^top1 score' train --data few --threads 1 --epochs 1 --batch-size 4 --replicas 4 \
    --momentum 0 --no-fold --reduction sum --lr 0.01 --save sum.onnx
check "the mean of it" exits 0 '^top1 score' train --data few --threads 1 --epochs 1 --batch-size 4 --replicas 4 \
    --momentum 0 --no-fold --lr 0.04 --save mean.onnx
check "a sum is a mean at a higher rate: nearly the same" "$python" -c "
import numpy, onnx
from onnx import numpy_helper as n
a, b = ([n.to_array(t) for t in onnx.load(f).graph.initializer] for f in ('sum.onnx', 'mean.onnx'))
assert all(numpy.allclose(x, y, rtol=1e-3, atol=1e-4) for x, y in zip(a, b))"

check "one IPU, accumulating" exits 0 '^top1 score' "${train[@]}" --gradient-accumulation 6 --save one.onnx
for schedule in grouped interleaved sequential; do
    check "two stages, $schedule" exits 0 '^top1 score' "${train[@]}" --gradient-accumulation 6 --ipus 2 --pipeline-stages 2 \
        --pipeline-schedule $schedule --save stages.onnx
    check "two stages, $schedule: the same bits" equal one.onnx stages.onnx
done
check "two stages that recompute, off chip" exits 0 '^top1 score' "${train[@]}" --gradient-accumulation 6 --pipeline-stages 2 \
    --recompute --off-chip both --save less.onnx
check "two stages that recompute, off chip: the same bits" equal one.onnx less.onnx
check "replicas of stages" json '[(i["replica"], i["stage"]) for i in d["ipus"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    and d["epochs"][0]["loss"] < 2.3 and all(i["cycles_per_step"] > 100 for i in d["ipus"])
    and d["ipus"][0]["cycles_per_step"] != d["ipus"][1]["cycles_per_step"]' "${train[@]}" --gradient-accumulation 4 --ipus 4 --pipeline-stages 2 --shard-optimizer --json

# ---- what is shown ----

check "which IPUs" matches four.txt '^4 IPUs, 0 to 3 of partition default: 4 replicas$'
check "each IPU" matches four.txt '^IPU 3: replica 3, stage 0, busy [0-9]+%, computes [0-9]+ cycles a step$'
check "JSON: each IPU" json '[i["ipu"] for i in d["ipus"]] == [0, 1] and all(0 < i["busy"] <= 1 for i in d["ipus"])
    and d["ipus"][0]["device"] == 4 and d["ipus"][1]["cycles_per_step"] > 1000' "${train[@]}" --replicas 2 --json
check "JSON: one IPU is an IPU too" json 'len(d["ipus"]) == 1 and d["ipus"][0]["replica"] == 0' "${train[@]}" --json
check "more than the partition shows" exits 0 '^8 IPUs of its own beside partition default: 8 replicas$' "${train[@]}" --ipus 8
monitored()
{
    local child rows=0
    "$ipu" "${train[@]}" --epochs 100 --ipus 4 > "$box/out" 2>&1 &
    child=$!
    for _ in $(seq 3000); do
        grep -q '^epoch 1' "$box/out" && break
        sleep 0.02
    done
    "$ipu" monitor > "$box/table"
    rows=$(grep -cE "^\| +$child +\| +ipu " "$box/table")
    kill -s TERM $child
    wait $child
    cat "$box/table"
    [ "$rows" = 4 ]
}
check "the monitor shows all of them" monitored
check "a profile" exits 0 '^top1 score' "${train[@]}" --replicas 2 --profile prof
check "a profile tells of all IPUs" "$python" -c "
import json
d = json.load(open('prof/profile.json'))
assert d['target']['ipus'] == 2, d['target']"

# ---- going on ----

go=(train --data few --threads 1 --epochs 2 --batch-size 4 --optimizer adam --schedule constant --replicas 2 --no-fold)
check "checkpoints of a divided optimizer" exits 0 '^top1 score' "${go[@]}" --epochs 1 --shard-optimizer --checkpoint-dir run
check "go on with a whole one" exits 0 '^going on from run' "${go[@]}" --checkpoint-dir run --resume --save resumed.onnx
check "without a stop" exits 0 '^top1 score' "${go[@]}" --save whole.onnx
check "go on: the same bits" equal whole.onnx resumed.onnx
check "go on with a sum" refused 1 '"reduction" is not there in the checkpoint, and "sum" now' "${go[@]}" --checkpoint-dir run --resume --reduction sum
check "go on folded" refused 1 '"no-fold" is true in the checkpoint, and not there now' train --data few --threads 1 --epochs 2 \
    --batch-size 4 --optimizer adam --schedule constant --replicas 2 --checkpoint-dir run --resume

# ---- partitions ----

small() { IPU_ELASTIC=0 refused 1 '8 replicas of 1 IPUs need 8 IPUs, and partition default has 4: take fewer' "${train[@]}" --ipus 8; }
check "a hard partition that is too small" small
fits() { IPU_ELASTIC=0 exits 0 '^4 IPUs, 0 to 3 of partition default' "${train[@]}" --ipus 4; }
check "a hard partition that is large enough" fits
check "a system that is too small" refused 1 'target .*: 8 IPUs: it has 4' "${train[@]}" --ipus 8 --target m2000

# ---- misuse ----

check "no power of two" refused 2 '3 replicas of 1 stages are 3 IPUs: expected 1 or a power of two' "${train[@]}" --replicas 3
check "no power of two with stages" refused 2 '2 replicas of 3 stages are 6 IPUs' "${train[@]}" --replicas 2 --pipeline-stages 3
check "IPUs that cannot be divided" refused 2 '--ipus 4: not to be divided into replicas of 3 stages' "${train[@]}" --ipus 4 --pipeline-stages 3
check "IPUs and replicas that do not agree" refused 2 '--ipus 8: 2 replicas of 1 stages have 2' "${train[@]}" --ipus 8 --replicas 2
check "a divided optimizer of one" refused 2 '--shard-optimizer divides it among replicas' "${train[@]}" --shard-optimizer
check "a schedule without stages" refused 2 '--pipeline-schedule is of stages' "${train[@]}" --pipeline-schedule grouped
check "recomputation without stages" refused 2 '--recompute is of stages' "${train[@]}" --recompute
check "activations off chip without stages" refused 2 '--off-chip both: what stages keep' "${train[@]}" --off-chip both
check "too few batches for the stages" refused 2 '--pipeline-stages 4 needs --gradient-accumulation 7 or more' "${train[@]}" --pipeline-stages 4
check "no such pipeline schedule" refused 2 'no "x"; there are: grouped, interleaved, sequential' "${train[@]}" --pipeline-stages 2 --pipeline-schedule x
check "no such reduction" refused 2 '--reduction: no "max"; there are: mean, sum' "${train[@]}" --reduction max
check "no such place" refused 2 '--off-chip: no "weights"; there are: optimizer, activations, both' "${train[@]}" --off-chip weights
for option in ipus replicas pipeline-stages; do
    check "--$option 0" refused 2 "option --$option: \"0\" is no number from 1" "${train[@]}" --$option 0
done

check_end
