#!/usr/bin/env bash
# `ipu train`, `ipu infer` and `ipu check`: what they print and write, signals, going on, misuse, pictures of all kinds.
# Usage: train_tools_test.sh [IPU]. Skips where /usr/bin/python3 has no numpy and onnx. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
check_python onnx numpy "python3-onnx python3-numpy"
source=$PWD
check_alone

equal() { cmp "$1" "$2"; }
there() { local f; for f; do [ -s "$f" ] || { echo "no $f"; return 1; }; done; }
none_of() { local f; for f; do [ ! -e "$f" ] || { echo "$f is there"; return 1; }; done; }

# ---- data ----

check "digits are drawn" "$ipu" dataset digits --out digits --count 1604 --test-count 505 --seed 3
check "and a few" "$ipu" dataset digits --out few --count 960 --test-count 100 --seed 4
mkdir pictures
check "pictures are made of them" "$python" "$source/tests/train/pictures.py" digits pictures
train=(train --data digits --threads 1 --lr 0.02)
brief=(train --data few --threads 1 --epochs 1)

# ---- training ----

check "train: score" exits 0 '^top1 score: 0\.[0-9]{4}$' "${train[@]}" --epochs 3 --save model/mnist.onnx --plot pics/loss.svg \
    --profile prof/one
cp out first.txt
matches() { grep -qE -- "$2" "$1" || { cat "$1"; return 1; }; }
check "train: compilation" matches first.txt '^Graph compilation: 100/100$'
check "train: a line for each epoch" \
    matches first.txt '^epoch 3/3: loss 0\.[0-9]+, accuracy 0\.[0-9]+, test loss 0\.[0-9]+, test accuracy 0\.[0-9]+, [0-9]+ images/s$'
check "train: time on the chip" matches first.txt '^one step on gc200: [0-9.]+ .?s, [0-9]+ cycles, modelled$'
check "train: tells what it saved" matches first.txt '^saved model/mnist.onnx$'
check "train: no control characters off a terminal" bash -c '! grep -q "[[:cntrl:]]" first.txt'
check "train: it has learnt" "$python" -c "
score = float([l for l in open('first.txt') if l.startswith('top1 score: ')][0].split()[2])
assert score > 0.9, score"
check "train: files" there model/mnist.onnx pics/loss.svg prof/one/profile.txt prof/one/profile.json
check "plot: XML, with a title, lines and numbers" "$python" -c "
import re, xml.etree.ElementTree as et
root = et.parse('pics/loss.svg').getroot()
svg = '{http://www.w3.org/2000/svg}'
assert root.tag == svg + 'svg', root.tag
assert root.find(svg + 'title').text == 'Loss of seed-cnn'
lines = [p for p in root.iter(svg + 'path') if p.get('class', '').startswith('line') and 'L' in p.get('d')]
assert len(lines) == 3, len(lines)
texts = [t.text for t in root.iter(svg + 'text')]
assert {'0', '1', '2', '3', 'epochs', 'loss', 'training', 'mean of an epoch', 'test set'} <= set(texts), texts
for p in lines:
    for x, y in re.findall(r'([-0-9.]+) ([-0-9.]+)', p.get('d')):
        assert 0 <= float(x) <= 800 and 0 <= float(y) <= 480"
check "plot: nothing from elsewhere" bash -c '! grep -qE "href|url\(|<script" pics/loss.svg'
check "profile: JSON with times of what ran, which is not what is priced" "$python" -c "
import json
d = json.load(open('prof/one/profile.json'))
assert not any(s['measured'] for s in d['steps'])
ran = {s['name'] for s in d['host_steps'] if s['seconds'] > 0}
assert 'conv_max_pool' in ran, ran"

limited() { (ulimit -f 8 && "$@"); } # in KiB
check "train: a model larger than ulimit -f is an error" limited exits 1 \
    'cannot write large.onnx: File too large: .*raise the limit .ulimit -f' "${brief[@]}" --save large.onnx
check "train: a checkpoint larger than ulimit -f is an error" limited exits 1 \
    'cannot write large/checkpoint-.*npz: File too large: .*ulimit -f' "${brief[@]}" --checkpoint-dir large
check "train: a profile larger than ulimit -f is an error" limited exits 1 \
    'cannot write large/profile.txt: .*larger than files may be here: .*ulimit -f' "${brief[@]}" --profile large
check "train: none leaves anything half written" bash -c '! ls large.onnx .ipu-* large/*.npz large/.ipu-* large/profile* 2> /dev/null'
if [ "$(id -u)" = 0 ]; then
    mkdir -m 1777 shared && echo precious > precious && ln -s ../precious shared/x.onnx && chown -h 65534 shared/x.onnx
    check "train: a link that another user has planted" exits 1 'shared/x.onnx: x.onnx is a link that user 65534 has put there' \
        "${brief[@]}" --save shared/x.onnx
    check "train: what it names is as it was" matches precious '^precious$'
    ln -s .. shared/folder && chown -h 65534 shared/folder
    for option in checkpoint-dir profile; do
        check "train: --$option behind such a link" exits 1 'shared/folder.* link .*another' "${brief[@]}" --$option shared/folder/made
        check "train: --$option: nothing is made there" none_of made
    done
    check "dataset: behind such a link" exits 1 'shared/folder.* link ' dataset digits --out shared/folder/made --count 16
    check "dataset: nothing is made there" none_of made
fi
check "train: the same again" exits 0 '^top1 score' "${train[@]}" --epochs 3 --save again.onnx
check "train: the same bits" equal model/mnist.onnx again.onnx
check "train: two threads" json 'd["top1"] > 0.4' "${brief[@]}" --threads 2 --json
check "train: another seed" exits 0 '^top1 score' "${train[@]}" --epochs 1 --seed 1 --save seed.onnx
check "train: other bits with another seed" bash -c '! cmp -s model/mnist.onnx seed.onnx'

check "train: JSON" json 'd["model"] == "seed-cnn" and len(d["epochs"]) == 2 and d["top1"] == d["epochs"][1]["test_accuracy"] > 0.8
    and d["epochs"][0]["loss"] > d["epochs"][1]["loss"] > 0 and d["images_per_second"] > 0 and d["compile_ms"] > 0
    and d["modelled"]["chip"] == "gc200" and d["modelled"]["cycles_per_step"] > 1000 and not d["interrupted"]
    and d["runs"] == 2 * 100 and d["saved"] is None' "${train[@]}" --epochs 2 --json
check "train: JSON: progress goes to standard error" matches err '^epoch 2/2: loss'
# As many as there are, by the message that lists them.
optimizers=$("$ipu" train --data digits --optimizer none 2>&1 | sed -n 's/.*there are: //p' | tr -d ,)
check "train: there are optimizers" test "$(wc -w <<< "$optimizers")" -ge 8
for optimizer in $optimizers; do
    check "train: $optimizer is in the help" bash -c '"$0" help train | sed -n "/--optimizer NAME/,/--momentum/p" | grep -qw "$1"' \
        "$ipu" "$optimizer"
    check "train: $optimizer is in the manual" grep -q "^| \`$optimizer\` |" "$source/docs/training.md"
    check "train: $optimizer" json 'd["epochs"][0]["loss"] < 2.25' "${brief[@]}" --optimizer $optimizer --json
done
for schedule in constant step; do
    check "train: schedule $schedule" json 'd["top1"] > 0.4' "${brief[@]}" --schedule $schedule --json
done
still=("${brief[@]}" --lr 1e-30 --epochs 8) # no epoch is better than the first
check "train: patience" exits 0 '^ended after epoch 3: 2 epochs without a lower test loss$' "${still[@]}" --patience 2 --checkpoint-dir patient \
    --schedule constant
check "train: patience: no epoch after it" bash -c '! grep -q "^epoch 4/8" out && grep -q "^epoch 3/8" out'
check "train: patience: it is finished" exits 0 '^the training in patient is finished: 3 epochs$' "${still[@]}" --patience 2 --checkpoint-dir patient \
    --schedule constant --resume
check "train: more patience goes on" json 'len(d["epochs"]) == 4 and d["resumed_from"] == 3 * 60' "${still[@]}" --patience 3 --checkpoint-dir patient \
    --schedule constant --resume --json
check "train: patience with what gets better" json 'len(d["epochs"]) == 2' "${brief[@]}" --epochs 2 --patience 1 --json
check "train: no patience" refused 2 'option --patience: "0" is no number from 1 to 1000000' "${brief[@]}" --patience 0
check "train: device iterations and accumulation" json 'd["runs"] == 960 // (4 * 3 * 5) and d["epochs"][0]["loss"] < 2.3' \
    "${brief[@]}" --batch-size 4 --device-iterations 3 --gradient-accumulation 5 --lr 0.05 --json
check "train: replicas" json 'd["runs"] == 960 // 16 and d["epochs"][0]["loss"] < 2.1' \
    "${brief[@]}" --batch-size 8 --replicas 2 --json
check "train: mnist-cnn" json 'd["top1"] > 0.4' "${brief[@]}" --model mnist-cnn --json
check "train: an ONNX model, from where it was, in larger batches" json 'd["epochs"][0]["loss"] < 0.4' \
    "${brief[@]}" --model model/mnist.onnx --loss nll --lr 0.001 --save more.onnx --json
check "train: and it is written" exits 0 'Inference result of pictures/same_3.png is: 3' infer more.onnx pictures/same_3.png

# ---- terminals ----

if command -v script > /dev/null; then
    in_terminal() # COLUMNS COMMAND
    {
        SHELL=/bin/sh timeout -k 5 300 env --default-signal=CHLD TERM=xterm script -qec "stty cols $1; $2" /dev/null < /dev/null > "$box/out"
        tr '\r' '\n' < "$box/out" | sed 's/\x1b\[K//g' > "$box/lines"
        cat "$box/lines"
    }
    bar() # COLUMNS PATTERN
    {
        in_terminal "$1" "$ipu train --data few --threads 1 --epochs 3"
        grep -qE -- "$2" "$box/lines" && awk -v n="$1" '/%/ && length >= n { exit 1 }' "$box/lines"
    }
    check "a terminal: a bar with all there is to tell" bar 120 \
        '^epoch [123]/3 +[0-9]+% \[=*>? *\]  loss [0-9.]+  accuracy [0-9.]+  [0-9]+ images/s  [0-9:]+ left'
    check "a terminal: the lines of epochs stay" matches lines '^epoch 3/3: loss'
    check "a narrow terminal: less of it" bar 40 '^epoch [123]/3 +[0-9]+%  loss [0-9.]+$|^epoch [123]/3 +[0-9]+%  loss [0-9.]+  [0-9:]+ left$'
else
    skip "no script here, for a terminal"
fi

# ---- signals, and going on ----

# stopped SIGNAL CODE PATTERN FOLDER: a training that is stopped when it has made a checkpoint ends with CODE.
stopped()
{
    local code=0 child
    env --default-signal=INT,TERM "$ipu" "${train[@]}" --epochs 3 --checkpoint-dir "$4" --checkpoint-every 20 > "$box/out" 2> "$box/err" &
    child=$!
    for _ in $(seq 3000); do
        compgen -G "$4/*.npz" > /dev/null && break
        sleep 0.02
    done
    kill -s "$1" $child
    wait $child || code=$?
    cat "$box/out" "$box/err"
    [ "$code" = "$2" ] && grep -qE -- "$3" "$box/out"
}
# On a busy machine the training may have come to its end before the signal is sent.
stopped_in_time()
{
    for _ in 1 2 3 4 5; do
        stopped "$@" && return
        grep -q '^top1 score' "$box/out" || return
        rm -rf "$4"
    done
    return 1
}
check "SIGINT stops in order" stopped_in_time INT 130 '^stopped after run [0-9]+; --resume goes on from one$' one
check "resume" exits 0 '^going on from one: epoch [123], batch [0-9]+ of 100$' "${train[@]}" --epochs 3 --checkpoint-dir one \
    --checkpoint-every 20 --resume --save resumed.onnx
check "resume: the same bits as without a stop" equal model/mnist.onnx resumed.onnx
check "resume: finished" exits 0 '^the training in one is finished: 3 epochs$' "${train[@]}" --epochs 3 --checkpoint-dir one \
    --resume --save finished.onnx
check "resume: finished, and the same is written" equal model/mnist.onnx finished.onnx
check "resume: finished, and the score is told" matches out '^top1 score: '
check "SIGTERM stops in order" stopped_in_time TERM 143 '^stopped after run' two
check "resume: JSON tells the whole story" json 'len(d["epochs"]) == 3 and d["resumed_from"] >= 20 and d["runs"] == 3 * 100' \
    "${train[@]}" --epochs 3 --checkpoint-dir two --resume --json
check "resume: nothing there yet" exits 0 '^no checkpoint in fresh: from the beginning$' "${train[@]}" --epochs 1 --schedule constant \
    --checkpoint-dir fresh --resume
check "resume: longer, with a constant rate" exits 0 '^epoch 2/2' "${train[@]}" --epochs 2 --schedule constant --checkpoint-dir fresh --resume

twice()
{
    local code=0 child
    env --default-signal=INT,TERM "$ipu" "${train[@]}" --device-iterations 100 --epochs 100 > "$box/out" 2>&1 &
    child=$!
    for _ in $(seq 3000); do
        grep -q '^epoch 1' "$box/out" && break
        sleep 0.02
    done
    kill -s STOP $child # so that both are there before it goes on
    kill -s TERM $child
    kill -s INT $child
    kill -s CONT $child
    wait $child || code=$?
    [ "$code" = 130 ] || [ "$code" = 143 ]
}
check "two signals at once" twice
ignored()
{
    (trap '' INT; exec "$ipu" "${train[@]}" --epochs 5 > "$box/out") &
    for _ in $(seq 3000); do
        grep -q '^epoch 1' "$box/out" && break
        sleep 0.02
    done
    kill -s INT $!
    wait $!
}
check "a signal that is ignored stays so" ignored

# ---- checkpoints that are not to be used ----

check "checkpoints of before are not overwritten" refused 1 'fresh holds a checkpoint of an earlier training, fresh/.*: go on from it with --resume' \
    "${train[@]}" --epochs 2 --checkpoint-dir fresh
differs() # PATTERN ARGUMENT...
{
    local pattern=$1 before
    before=$(cat one/* | cksum)
    shift
    exits 1 "$pattern" train --data digits --threads 1 --lr 0.02 --checkpoint-dir one --resume --epochs 3 "$@" && [ "$before" = "$(cat one/* | cksum)" ]
}
check "resume: another model" differs 'is of the model seed-cnn, not of mnist-cnn' --model mnist-cnn
check "resume: another batch size" differs '"batch-size" is 16 in the checkpoint, and 8 now' --batch-size 8
check "resume: another rate" differs '"lr" is 0.02 in the checkpoint, and 0.5 now' --lr 0.5
check "resume: another seed" differs '"seed" is 0 in the checkpoint, and 7 now' --seed 7
check "resume: another number of epochs" differs '"epochs" is 3 in the checkpoint, and 4 now .with --schedule constant it may differ' --epochs 4
check "resume: other data" differs '"data digest" is "[0-9a-f]*" in the checkpoint, and "[0-9a-f]*" now' --data few
cp -r digits moved
check "resume: the same data elsewhere" exits 0 'finished' train --data moved --threads 1 --lr 0.02 --checkpoint-dir one --resume --epochs 3
cp -r one bad
cp -r one newest
damage() { local f; for f; do printf 'X' | dd of="$f" bs=1 seek=$(($(stat -c %s "$f") / 2)) conv=notrunc status=none; done; }
damage bad/*.npz
for time in first second; do
    check "resume: all are damaged, the $time time" refused 1 'there is no checkpoint in bad that is whole; 3 were damaged.* or begin anew with --restart$' \
        "${train[@]}" --epochs 3 --checkpoint-dir bad --resume
done
check "resume: damaged ones stay where they are" there bad/checkpoint-000000000{260,280,300}.npz
for f in bad/*.npz; do mv "$f" "$f.damaged"; done
check "resume: all were set aside" refused 1 '3 were damaged.*--restart$' "${train[@]}" --epochs 3 --checkpoint-dir bad --resume
check "restart: from the beginning" exits 0 '^top1 score: ' "${train[@]}" --epochs 3 --checkpoint-dir bad --restart --save restarted.onnx
check "restart: the same bits" equal model/mnist.onnx restarted.onnx
check "restart: those of before are kept" there bad/checkpoint-000000000{260,280,300}.npz.damaged.before
check "restart and resume" refused 2 'expected one of them' "${train[@]}" --checkpoint-dir bad --restart --resume
damage newest/checkpoint-000000000300.npz
check "resume: the newest is damaged" warns 'a damaged checkpoint is passed over: newest/checkpoint-000000000300.npz; it is now called' '^going on from newest: epoch 3, batch 80 of 100$' "${train[@]}" --epochs 3 \
    --checkpoint-dir newest --resume --save passed.onnx
check "resume: and the same bits come of it" equal model/mnist.onnx passed.onnx
check "a checkpoint folder that is a file" refused 1 'first.txt' "${train[@]}" --checkpoint-dir first.txt
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod a-w locked
    check "a folder that may not be written to" refused 1 'locked' "${train[@]}" --checkpoint-dir locked/here
else
    check "a folder that may not be written to" refused 1 '/proc' "${train[@]}" --checkpoint-dir /proc/here
fi
no_room()
{
    local before
    before=$(cat fresh/* | cksum)
    (trap '' XFSZ && ulimit -f 1 && exits 1 'fresh' "${train[@]}" --epochs 3 --schedule constant --checkpoint-dir fresh --resume 2>&1 | cat)
    [ "$before" = "$(cat fresh/* | cksum)" ]
}
check "no room for a checkpoint: those of before stay" no_room

# ---- pipes, which would be waited for ----

mkfifo pipe
mkdir piped && mkfifo piped/checkpoint-000000000001.npz
soon() { local expected=$1 pattern=$2; shift 2; code=0; timeout -k 1 60 "$ipu" "$@" > "$box/out" 2>&1 < /dev/null || code=$?; cat "$box/out"
    [ "$code" = "$expected" ] && grep -qE -- "$pattern" "$box/out"; }
check "a checkpoint that is a pipe" soon 1 'piped/checkpoint-000000000001.npz: expected a regular file, found a pipe' \
    "${brief[@]}" --checkpoint-dir piped --resume
check "data that are a pipe" soon 1 'no dataset at pipe' train --data pipe
check "a network that is a pipe" soon 1 'pipe/?.*: expected a regular file, found a pipe' train --data digits --model ./pipe --loss nll
check "a dataset of pipes" bash -c 'mkdir -p pipes && mkfifo pipes/{x,y}_{train,test}.npy pipes/train-{images-idx3,labels-idx1}-ubyte'
check "is no dataset" soon 1 'no dataset at pipes' train --data pipes
ends() # SIGNAL CODE: while it reads
{
    local code=0 child holder
    sleep 60 > pipe &
    holder=$!
    env --default-signal="$1" "$ipu" dump pipe < /dev/null > /dev/null 2>&1 &
    child=$!
    for _ in $(seq 3000); do
        readlink "/proc/$child/fd/"* 2> /dev/null | grep -qx "$box/pipe" && break
        sleep 0.01
    done
    kill -s "$1" $child
    wait $child || code=$?
    kill $holder
    [ $code = "$2" ]
}
check "a pipe that nothing comes from: SIGINT ends it" ends INT 130
check "a pipe that nothing comes from: SIGTERM ends it" ends TERM 143

# ---- misuse ----

check "no data" refused 2 'ipu train: expected --data DIR' train
check "no such data" refused 1 'nowhere' train --data nowhere
check "no such model" refused 1 'seed-cmn' train --data digits --model seed-cmn
check "no such file" refused 1 'none.onnx' train --data digits --model none.onnx --loss nll
check "no such loss" refused 1 'nlll' train --data digits --model model/mnist.onnx --loss nlll
check "a loss where there is one" refused 2 '--loss is for MODEL.onnx: seed-cnn has its own' train --data digits --loss nll
check "no such optimizer" refused 2 'no optimizer "sgdd"; there are: sgd, adam, adamw' train --data digits --optimizer sgdd
check "no such schedule" refused 2 'no schedule "x"; there are: constant, cosine, step' train --data digits --schedule x
check "momentum where there is none" refused 2 '--momentum: adam has none to choose' train --data digits --optimizer adam --momentum 0.5
check "no such target" refused 1 'gc201' train --data digits --target gc201
check "resume without a folder" refused 2 'need --checkpoint-dir' train --data digits --resume
check "raw with a mean" refused 2 'without --mean and --std' train --data digits --raw --mean 1
check "an operand" refused 2 'unexpected "digits"' train digits
for option in epochs batch-size device-iterations gradient-accumulation replicas checkpoint-every; do
    check "--$option 0" refused 2 "option --$option: \"0\" is no number from 1" train --data digits --$option 0 --checkpoint-dir x
done
for option in seed threads; do
    check "--$option -1" refused 2 "option --$option: \"-1\" is no number from 0" train --data digits --$option -1
done
for option in lr momentum weight-decay mean std; do
    check "--$option x" refused 2 "option --$option: \"x\" is no number from" train --data digits --$option x
    check "--$option nan" refused 2 "option --$option: \"nan\" is no number from" train --data digits --$option nan
done
check "a batch larger than the data" refused 1 '' train --data digits --batch-size 1605
check "a model that cannot be saved" refused 1 'cannot make the folder first.txt/x' train --data digits --save first.txt/x/m.onnx
check "a plot that cannot be drawn" refused 1 'cannot make the folder first.txt/x' train --data digits --plot first.txt/x/loss.svg
check "a profile that cannot be written" refused 1 'cannot make the folder first.txt' train --data digits --profile first.txt

# ---- trainings that diverge ----

# In the second batch, or in the test after the only one.
wild=(train --data few --threads 1 --epochs 1 --lr 1e6 --save kept.onnx)
cp model/mnist.onnx kept.onnx
check "a rate that is too high" exits 1 \
    'diverged: the loss is (nan|inf) in epoch 1, batch [0-9]+ of 60: a lower --lr than 1e\+06 may help; nothing of it is saved' \
    "${wild[@]}" --checkpoint-dir wild
check "a rate that is too high for the only step" exits 1 'diverged: the (test )?loss is (nan|inf) in epoch 1, batch [12] of 2:' \
    "${wild[@]}" --batch-size 480
check "what has diverged is not written" equal model/mnist.onnx kept.onnx
check "nor are its checkpoints" bash -c '! compgen -G "wild/*.npz"'
check "--keep: told all the same" exits 1 'diverged: .*; it is kept all the same$' "${wild[@]}" --checkpoint-dir wild --keep
check "--keep: the network is there" bash -c '! cmp -s model/mnist.onnx kept.onnx'
check "--keep: and a checkpoint" bash -c 'compgen -G "wild/*.npz"'
check "--keep: that cannot be gone on from" exits 1 'diverged: ' "${wild[@]}" --checkpoint-dir wild --resume
for json in '' --json; do
    check "infer: a network that gives nan $json" exits 1 'same_3.png: the network kept.onnx gives no numbers for it .nan.' \
        infer kept.onnx pictures/same_3.png $json
done
mkdir wrong
"$python" - << 'PY'
import numpy as np
x, y = np.random.default_rng(0).random((32, 28, 28), np.float32), np.arange(32) % 10
for name in "test", "train":
    np.save(f"wrong/x_{name}.npy", x[:8] if name == "test" else np.where(np.arange(32)[:, None, None] == 17, np.inf, x))
    np.save(f"wrong/y_{name}.npy", y[:8] + 3 if name == "test" else y)
PY
check "a pixel that is no number" exits 1 'wrong/x_train.npy: sample 17 is inf at element 0: expected finite numbers' \
    train --data wrong --threads 1
"$python" -c "import numpy as np; np.save('wrong/x_train.npy', np.ones((32, 28, 28), np.float32))"
check "a label that is no class" exits 1 'wrong: a label of the test set is 10: the network has classes 0 to 9' train --data wrong --threads 1 --json
check "nothing is left of these" none_of x

# ---- pictures ----

reads() # KIND: at least nine of ten
{
    local digit right=0
    "$ipu" infer model/mnist.onnx pictures/"$1"_*.png > "$box/out"
    for digit in 0 1 2 3 4 5 6 7 8 9; do
        grep -qE "^Inference result of pictures/$1_$digit.png is: $digit  confidence [01]\.[0-9]{4}$" "$box/out" && right=$((right + 1))
    done
    cat "$box/out"
    [ $right -ge 9 ]
}
check "infer: light on dark" reads same
check "infer: dark on light" reads dark
check "infer: big, not in the middle" reads big
check "infer: in colour" reads colour
check "infer: transparent" reads clear
check "infer: top" exits 0 '^  3 +0\.[0-9]+$' infer model/mnist.onnx pictures/same_3.png --top 10
check "infer: all classes" bash -c '[ "$(grep -c "^  [0-9]" out)" = 10 ]'
check "infer: JSON" json 'd["results"][0]["image"] == "pictures/same_0.png" and [r["result"] for r in d["results"]] == [0, 3]
    and len(d["results"][0]["top"]) == 4 and abs(d["results"][0]["top"][0]["confidence"] - d["results"][0]["confidence"]) < 1e-9
    and 0.3 < d["results"][1]["confidence"] <= 1' infer model/mnist.onnx pictures/same_0.png pictures/same_3.png --top 4 --json
check "infer: probabilities add up to one" json 'abs(sum(t["confidence"] for t in d["results"][0]["top"]) - 1) < 1e-6' \
    infer model/mnist.onnx pictures/big_5.png --top 10 --json
check "run: the file that train wrote" exits 0 '^input +images  float\[1,1,28,28\]' run model/mnist.onnx
check "show: what its pixels were" "$python" -c "
import onnx
m = onnx.load('model/mnist.onnx')
onnx.checker.check_model(m)
meta = {p.key: p.value for p in m.metadata_props}
assert meta == {'openipu.raw': 'false', 'openipu.mean': '0.1307', 'openipu.std': '0.3081'}, meta"
check "train: an ONNX model with other pixels" exits 0 '^saved raw.onnx' "${brief[@]}" --model model/mnist.onnx \
    --loss nll --lr 0.00001 --raw --save raw.onnx
check "train: what they are is written" "$python" -c "
import onnx
meta = {p.key: p.value for p in onnx.load('raw.onnx').metadata_props}
assert meta['openipu.raw'] == 'true', meta"

"$python" - << 'PY'
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as n

def model(name, shape, n_in=1, type=T.FLOAT, metadata={}, axes=None, out=None):
    """Sums of the pixels of each channel as scores: [N, channels]."""
    inputs = [h.make_tensor_value_info(f"x{i}", type, shape) for i in range(n_in)]
    nodes = [h.make_node("ReduceSum", ["x0", "axes"], ["y"], keepdims=0)]
    out = h.make_tensor_value_info("y", type, out or [shape[0], None])
    weights = [n.from_array(np.array(axes, np.int64), "axes")]
    m = h.make_model(h.make_graph(nodes, "g", inputs, [out], weights), opset_imports=[h.make_opsetid("", 13)])
    m.ir_version = 7
    h.set_model_props(m, metadata)
    onnx.save(m, name)

model("colours.onnx", [1, 3, 20, 30], axes=[2, 3])
model("last.onnx", ["N", 20, 30, 3], axes=[1, 2])
model("batch.onnx", [4, 3, 20, 30], axes=[2, 3])
model("flat.onnx", [1, 784], axes=[1], out=[1])
model("rows.onnx", [1, 28, 28], axes=[2], out=[1, 28])
model("two.onnx", [1, 3, 20, 30], n_in=2, axes=[2, 3])
model("int.onnx", [1, 3, 20, 30], type=T.INT32, axes=[2, 3])
model("odd.onnx", [1, 785], axes=[1], out=[1])
model("open.onnx", [1, 3, "H", "W"], axes=[2, 3])
model("wrong.onnx", [1, 3, 20, 30], axes=[2, 3], metadata={"openipu.std": "0"})
model("deep.onnx", [1, 5, 20, 30], axes=[2, 3])
PY
"$python" -c "
import struct, zlib
def png(path, rgb, width, height):
    def chunk(name, data):
        return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
    open(path, 'wb').write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0))
        + chunk(b'IDAT', zlib.compress((b'\0' + bytes(rgb) * width) * height)) + chunk(b'IEND', b''))
png('red.png', (250, 10, 20), 7, 5)
png('green.png', (0, 255, 0), 300, 200)
png('blue.png', (0, 0, 255), 1, 1)"
for model in colours last batch; do
    check "infer: $model" json '[r["result"] for r in d["results"]] == [0, 1, 2]' infer $model.onnx red.png green.png blue.png --json
done
check "infer: raw" json 'd["results"][0]["confidence"] == 1' infer colours.onnx green.png --raw --json
check "infer: mean and std" json 'abs(d["results"][0]["confidence"] - 1 / (1 + 2 * 2.718281828 ** -1)) < 1e-4' \
    infer colours.onnx green.png --mean 0.5 --std 600 --json
check "infer: rows" exits 0 'is: [0-9]+ ' infer rows.onnx pictures/same_3.png
check "infer: resized only" exits 0 'is: [0-9]+ ' infer rows.onnx pictures/dark_3.png --resize

check "infer: no picture" refused 2 'expected MODEL.onnx IMAGE.png' infer model/mnist.onnx
check "infer: no such model" refused 1 'none.onnx' infer none.onnx red.png
check "infer: no PNG" refused 1 'first.txt' infer model/mnist.onnx first.txt
check "infer: no such picture" refused 1 'none.png' infer model/mnist.onnx none.png
check "infer: the others are done" exits 1 'same_3.png is: 3' infer model/mnist.onnx none.png pictures/same_3.png
head -c 100 pictures/big_3.png > cut.png
check "infer: a picture that is cut short" refused 1 'cut.png' infer model/mnist.onnx cut.png
check "infer: two inputs" refused 1 'two.onnx has 2 inputs: expected one, of pictures' infer two.onnx red.png
check "infer: no floats" refused 1 'input "x0" is int32\[1,3,20,30\]: expected float' infer int.onnx red.png
check "infer: no square" refused 1 'input "x0" is float\[1,785\]: expected float' infer odd.onnx red.png
check "infer: five channels" refused 1 'input "x0" is float\[1,5,20,30\]' infer deep.onnx red.png
check "infer: a size that is not told" refused 1 'input "x0" is float\[1,3,H,W\]' infer open.onnx red.png
check "infer: outputs that are no scores" refused 1 'output "y" is float\[1\]: expected \[1, classes\]' infer flat.onnx pictures/same_3.png
check "infer: metadata that are wrong" refused 1 'metadata "openipu.std": "0" is no number to use' infer wrong.onnx red.png
check "infer: --raw with --std" refused 2 'without --mean and --std' infer colours.onnx red.png --raw --std 1
check "infer: --std 0" refused 2 'option --std: "0" is no number' infer colours.onnx red.png --std 0
check "infer: --top 0" refused 2 'option --top: "0" is no number' infer colours.onnx red.png --top 0

# ---- check ----

check "check" exits 0 '^OpenIPU is installed successfully!$' check
check "check: one IPU" matches out '^OpenIPU works well on 1 IPU\.$'
check "check: two IPUs" matches out '^OpenIPU works well on 2 IPUs\.$'
check "check: JSON" json 'd["works"] and [c["result"] for c in d["checks"]] == ["ok"] * 7
    and [c["name"] for c in d["checks"]][:3] == ["engine", "kernels", "codelets"]' check --json
smaller() { "$ipu" partition create old --target c2 && exits 0 '^engine +ok: 1216 vertices on 1216 tiles' check && "$ipu" partition remove old; }
check "check: on a partition of a chip with fewer tiles" smaller
no_compiler() { IPU_CC=$box/none exits 0 '^codelets +missing: .*apt-get install gcc' check; }
check "check: no compiler is missing, not broken" no_compiler
no_home() { env -u HOME "$ipu" check | grep -E '^cache +missing: no place for it: set IPU_CACHE_DIR'; }
check "check: no place for the cache" no_home
bad_cache() { IPU_CACHE_DIR=/proc/none warns 'the cache folder /proc/none cannot be used' '^cache +missing: /proc cannot be written to' check; }
check "check: a cache that cannot be written" bad_cache
no_partition() { IPU_PARTITION=none exits 1 '^devices +failed: .*none' check; }
check "check: no such partition is broken" no_partition
check "check: and said so in the end" matches out '^OpenIPU does not work here: see what failed above\.$'
check "check: an operand" refused 2 'unexpected "x"' check x

check_end
