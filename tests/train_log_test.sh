#!/usr/bin/env bash
# `ipu train --log`: tables and event files, read by a reader of this script's own, and by TensorBoard's where it is installed; killed
# and gone on with; what is there already; what cannot be written; hostile names; misuse.
# Usage: train_log_test.sh [IPU]. Needs /usr/bin/python3. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
source=$PWD
check_alone

reader=$source/tests/train/read_log.py
train=(train --data few --threads 1 --epochs 3 --schedule constant)
steps=180 # 960 / 16 in an epoch
check "digits are drawn" "$ipu" dataset digits --out few --count 960 --test-count 100 --seed 4

# ---- a whole one ----

check "a log" exits 0 '^top1 score' "${train[@]}" --log runs/one --log-weights --save logged.onnx
cp out one.txt
check "the log: each step once, in tables and events alike" "$python" "$reader" runs/one $steps 3
check "the log: what was printed" "$python" -c "
import csv, re
rows = list(csv.DictReader(open('runs/one/epochs.csv')))
said = [re.match(r'epoch (\d)/3: loss (\S+), accuracy (\S+), test loss (\S+), test accuracy (\S+), ', l) for l in open('one.txt')]
said = [m.groups() for m in said if m]
assert len(said) == 3, said
for row, (epoch, *numbers) in zip(rows, said):
    found = ['%.4f' % float(row[name]) for name in ('loss', 'accuracy', 'test_loss', 'test_accuracy')]
    assert row['epoch'] == epoch and found == numbers, (row, numbers)"
check "without a log" exits 0 '^top1 score' "${train[@]}" --save plain.onnx
check "without a log: the same bits" cmp logged.onnx plain.onnx
if "$python" -c 'import tensorboard' 2> /dev/null; then
    check "TensorBoard reads it" "$python" -c "
from tensorboard.backend.event_processing import event_accumulator
a = event_accumulator.EventAccumulator('runs/one', {'scalars': 0})
a.Reload()
assert [e.step for e in a.Scalars('train/loss')] == list(range(1, $steps + 1))
assert len(a.Scalars('test/accuracy')) == 3 and 'settings' in a.Tags()['tensors'] and a.Tags()['histograms']"
else
    skip "no tensorboard here to read it"
fi
check "fewer rows" exits 0 '^top1 score' "${train[@]}" --epochs 1 --log runs/few --log-every 7
check "fewer rows: every seventh" "$python" -c "
import csv
assert [int(r['step']) for r in csv.DictReader(open('runs/few/steps.csv'))] == list(range(7, 61, 7))"

# ---- killed, and gone on with ----

long=(train --data few --threads 1 --epochs 500 --schedule constant --checkpoint-dir saved --checkpoint-every 50 --log runs/killed)
killed()
{
    local child
    "$ipu" "${long[@]}" > killed.txt 2>&1 &
    child=$!
    for _ in $(seq 3000); do
        compgen -G 'saved/checkpoint-*[1-9]??.npz' > /dev/null && break
        sleep 0.02
    done
    kill -9 $child
    wait $child 2> /dev/null
    [ "$(wc -l < runs/killed/steps.csv)" -gt 100 ]
}
check "a training is killed" killed
check "what was written is whole, and nothing else is there" "$python" "$reader" runs/killed "$(($(wc -l < runs/killed/steps.csv) - 1))"
saved=(saved/checkpoint-*.npz) # in the order of their names
last=$(basename "${saved[-1]}" .npz)
last=$((10#${last#checkpoint-}))
goal=$((last / 60 + 2))
check "it goes on" exits 0 '^going on from saved' "${long[@]}" --epochs $goal --resume
check "and the log has each step once" "$python" "$reader" runs/killed $((goal * 60)) $goal
check "it is finished" exits 0 'is finished' "${long[@]}" --epochs $goal --resume
check "and the log is as it was" "$python" "$reader" runs/killed $((goal * 60)) $goal

# ---- what is there already ----

before=$(cat runs/one/steps.csv)
check "another training" refused 1 'runs/one holds the log of an earlier training: .*--resume, .*--restart' "${train[@]}" --log runs/one
check "another training: nothing has changed" test "$(cat runs/one/steps.csv)" = "$before"
check "--restart" exits 0 '^top1 score' "${train[@]}" --epochs 1 --log runs/one --restart
check "--restart: the log is the new one's" "$python" "$reader" runs/one 60 1
check "--restart: the old table is there" test "$(cat runs/one/steps.csv.before)" = "$before"
mkdir runs/mine && echo 'my,own' > runs/mine/steps.csv
check "a table that is something else" refused 1 'runs/mine/steps.csv: its first line is not "step,epoch' "${train[@]}" --log runs/mine --restart
check "a table that is something else: it is as it was" grep -qx 'my,own' runs/mine/steps.csv
mkfifo runs/mine/epochs.csv && rm runs/mine/steps.csv
check "a pipe" refused 1 'runs/mine/epochs.csv: expected a regular file' "${train[@]}" --log runs/mine

# ---- what cannot be written ----

check "a file in place of the folder" refused 1 'cannot make the folder one.txt: Not a directory' "${train[@]}" --log one.txt
check "no room for a folder" refused 1 '/proc/none' "${train[@]}" --log /proc/none
limited() { (ulimit -f 8 && "$@"); } # in KiB
check "no room for all of it: a warning, and the training is not lost" limited warns \
    'the log: cannot write runs/large/.*: File too large: .*; the training goes on' '^top1 score' "${train[@]}" --log runs/large
check "no room for all of it: one warning" test "$(wc -l < "$box/err")" = 1
check "no room for all of it: what is there is whole" "$python" "$reader" runs/large 0
if [ -w /dev/full ] && [ "$(id -u)" = 0 ]; then
    mkdir -m 1777 shared && ln -s .. shared/folder && chown -h 65534 shared/folder
    check "a link that another user has planted" refused 1 'shared/folder.* link ' "${train[@]}" --log shared/folder/made
    check "a link that another user has planted: nothing is made there" test ! -e made
fi

# ---- names ----

for name in $'a\nb' 'a b' $'\xff\xfe' '%s%n' '-dash' 'ü,"x"'; do
    check "a folder called $(printf %q "$name")" exits 0 '^top1 score' "${train[@]}" --epochs 1 "--log=./names/$name"
    check "a folder called $(printf %q "$name"): the log" "$python" "$reader" "./names/$name" 60 1
done

# ---- misuse ----

check "--log-every without --log" refused 2 '--log-every and --log-weights need --log' "${train[@]}" --log-every 2
check "--log-weights without --log" refused 2 '--log-every and --log-weights need --log' "${train[@]}" --log-weights
check "--log-every 0" refused 2 'option --log-every: "0" is no number from 1' "${train[@]}" --log x --log-every 0
check "--restart without a folder" refused 2 'need --checkpoint-dir' "${train[@]}" --restart

check_end
