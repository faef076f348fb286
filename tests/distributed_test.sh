#!/usr/bin/env bash
# Several processes that train together, under mpirun and poprun: the bits of one process with all the replicas, two runs
# alike, killed ranks, going on, two "hosts" in network namespaces, misuse, and what is there without MPI.
# Usage: distributed_test.sh [IPU]. Skips where there is no mpirun. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
sources=$PWD
export TMPDIR=$box
unset IPU_COMM_PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
space=ipu-test-$$
cleanup()
{
    ip netns del "$space-0" 2> /dev/null
    ip netns del "$space-1" 2> /dev/null
    rm -rf "$box"
}
trap cleanup EXIT
check_alone
ln -s "$ipu" poprun

# ---- poprun, as far as it goes without MPI ----

exits() # CODE PATTERN COMMAND...: output or errors match
{
    local expected=$1 pattern=$2 code=0
    shift 2
    "$@" > out 2>&1 < /dev/null || code=$?
    cat out
    [ "$code" = "$expected" ] && grep -qE -- "$pattern" out
}

hosts() { exits 0 'n8 +\| +n9 +\| +n11 +\| +a01x' ./poprun -r 4 -n 4 --host 'n[8-9,11],a[01]x' --print-topology yes; }
numbers() { exits 0 'replicas +\| +0 +\| +1 +\| +2 +\| +3 +\| +4 ' ./poprun -r 8 -n 4 --print-topology 1; }
config()
{
    ./poprun -r 8 -n 4 --export-config c.json \
        && exits 1 'c.json is there already' ./poprun -r 2 --export-config c.json \
        && ./poprun -r 2 --export-config c.json --overwrite-config && grep -q '"num-replicas": "2"' c.json \
        && exits 0 'replicas +\| +0 +\| +1 +\|$' ./poprun --import-config c.json --print-topology yes
}
hostfile()
{
    printf '# two\nnode1 slots=4\n  node2\n\n' > hosts
    exits 0 'node1 +\| +node2' ./poprun -r 2 -n 2 --hostfile hosts --print-topology yes
}
check "lists of hosts are expanded" hosts
check "replicas and instances are shown in a box" numbers
check "hosts come from a file" hostfile
check "options go to a file and come back" config
check "replicas that do not divide over instances are refused" exits 2 'do not divide evenly' ./poprun -r 2 -n 4 true
check "instances that do not divide over hosts are refused" exits 2 'over 3 hosts' ./poprun -r 4 -n 4 -H a,b,c true
check "replicas that are no power of two are refused" exits 2 'powers of two' ./poprun -r 6 -n 2 true
check "hosts that are none are refused" exits 2 'expected ranges' ./poprun -r 2 -n 2 -H 'a[3-1]' true
check "a flag that is none is refused" exits 2 'expected yes, no' ./poprun --print-topology maybe true
check "without a program there is nothing to do" exits 2 'expected a program' ./poprun -r 2
check "without mpirun it says what to install" env PATH="$box/none" /bin/bash -c \
    "./poprun -r 2 -n 2 true 2>&1 | { read -r line; [[ \$line == *openmpi-bin* ]]; }"

# ---- pictures: noise and labels will do ----

mkdir data && idx data/train 200 && idx data/t10k 20

# In 2 epochs of 12 or 6 runs.
options=(train --data data --epochs 2 --batch-size 4 --threads 1 --optimizer adam --lr 0.003 --no-fold)
run_alone() { "$ipu" "${options[@]}" "$@"; } # OPTION...

# ---- without MPI ----

check "one process needs no MPI" env IPU_COMM_PATH=/nowhere "$ipu" "${options[@]}" --epochs 1
check "under a launcher it says what is missing" exits 1 'libipu-mpi.so cannot be loaded' \
    env IPU_COMM_PATH=/nowhere OMPI_COMM_WORLD_SIZE=2 "$ipu" "${options[@]}"

plugin=$(dirname "$ipu")/../src/libipu-mpi.so
[ -f "$plugin" ] || plugin=$(dirname "$ipu")/../lib/libipu-mpi.so
if ! command -v mpirun > /dev/null || [ ! -f "$plugin" ]; then
    skip "there is no mpirun, or OpenIPU was built without MPI: apt-get install libopenmpi-dev openmpi-bin"
    check_end
    exit
fi

# ---- the bits of one process ----

mpi() # N COMMAND...
{
    local n=$1
    shift
    timeout 300 mpirun --mca plm isolated --oversubscribe --bind-to none --mca btl_base_warn_component_unused 0 -n "$n" "$@"
}
ranks() { local n=$1; shift; mpi "$n" "$ipu" "${options[@]}" "$@"; } # N OPTION...

two()
{
    run_alone --replicas 2 --save one.onnx && ranks 2 --save two.onnx --checkpoint-dir two && cmp one.onnx two.onnx \
        && grep -c 'top1' log | grep -qx 2 && [ -f two/checkpoint-000000000050.npz ]
}
four()
{
    run_alone --replicas 4 --gradient-accumulation 2 --save one4.onnx \
        && ranks 4 --gradient-accumulation 2 --save four.onnx && cmp one4.onnx four.onnx \
        && ranks 2 --replicas 4 --gradient-accumulation 2 --save twice.onnx && cmp one4.onnx twice.onnx
}
sums() # the smallest program of several processes
{
    mpi 2 "$(dirname "$(dirname "$ipu")")/examples/25_processes" | tee out && [ "$(grep -c '^sum: 3 6 9$' out)" = 2 ]
}
again() { ranks 2 --save again.onnx && cmp two.onnx again.onnx; }
folded()
{
    # What is folded adds up in another order: after one run the weights still agree to rounding.
    "$ipu" train --data data --epochs 1 --batch-size 100 --threads 1 --replicas 2 --json > a.json 2> /dev/null \
        && mpi 2 "$ipu" train --data data --epochs 1 --batch-size 100 --threads 1 --json > b.json 2> /dev/null \
        && /usr/bin/python3 -c '
import json
a, b = (json.load(open(f))["epochs"][0] for f in ("a.json", "b.json"))
for key in ("loss", "test_loss"):
    print(key, a[key], b[key])
    assert abs(a[key] - b[key]) <= 1e-6 * abs(a[key])'
}
# The first one writes it, and says once that it is there already.
logged()
{
    ranks 2 --log runs && /usr/bin/python3 "$sources/tests/train/read_log.py" runs 50 2 \
        && [ "$(find runs -type f | wc -l)" = 3 ] && exits 1 'runs holds the log of an earlier training' ranks 2 --log runs \
        && [ "$(grep -c 'holds the log' out)" = 1 ]
}
misuse() { exits 2 'do not divide over 4 processes' ranks 4 --replicas 2 && [ "$(grep -c 'do not divide' out)" = 1 ]; }
check "a sum over processes is the same in all" sums
check "two processes have the bits of one with two replicas" two
check "so do four, and two with two replicas each, with accumulated batches" four
check "two runs of the same layout have the same bits" again
check "losses agree to 1e-6 with replicas folded into one batch" folded
check "one log of all, with each step once" logged
check "replicas that do not divide over processes are told of once" misuse
check "a wrong option is refused" exits 2 'no option' ranks 2 --no-such-option
three() { exits 1 'power of two' mpi 3 "$ipu" "${options[@]}"; }
check "three processes are refused" three

# ---- started with different options ----

# differ PATTERN OPTION...: rank 1 has these too
differ()
{
    local pattern=$1
    shift
    exits 1 "rank 1 was started with $pattern" timeout 300 mpirun --mca plm isolated --oversubscribe --bind-to none \
        -n 1 "$ipu" "${options[@]}" : -n 1 "$ipu" "${options[@]}" "$@" \
        && [ "$(grep -c 'was started with' out)" = 1 ]
}
mkdir fewer && idx fewer/train 100 && idx fewer/t10k 20
check "another model is named" differ 'model "mnist-cnn", rank 0 with "seed-cnn"' --model mnist-cnn
check "another batch size is named" differ 'batch-size 8, rank 0 with 4' --batch-size 8
check "other epochs are named" differ 'epochs 3, rank 0 with 2' --epochs 3
check "another seed is named" differ 'seed 5, rank 0 with 0' --seed 5
check "another optimizer is named" differ 'optimizer "lamb", rank 0 with "adam"' --optimizer lamb
cp -r data changed
printf '\7\7' | dd of=changed/train-images-idx3-ubyte bs=1 seek=$((16 + 784 * 77 + 300)) conv=notrunc status=none
check "another schedule is named" differ 'schedule "step", rank 0 with "cosine"' --schedule step
check "another precision is named" differ 'precision "16", rank 0 with (it )?left out' --precision 16
check "another accumulation is named" differ 'gradient-accumulation 2, rank 0 with 1' --gradient-accumulation 2
check "other replicas are named" differ 'replicas 4, rank 0 with 2' --replicas 4
check "other contents of as many data are named" differ 'contents of the training data "[0-9a-f]+", rank 0 with "[0-9a-f]+"' --data changed
check "fewer data are named" differ 'training samples 100, rank 0 with 200' --data fewer

# ---- ranks that leave ----

# leaves PATTERN COMMAND...: what rank 1 does instead; all are gone within 10 s, with a message
leaves()
{
    local pattern=$1
    shift
    SECONDS=0
    exits 1 "$pattern" timeout 60 mpirun --mca plm isolated --oversubscribe --bind-to none \
        -n 1 "$ipu" "${options[@]}" --epochs 1000 : -n 1 "$@"
    local code=$?
    echo "gone after $SECONDS s"
    [ $code = 0 ] && [ $SECONDS -le 10 ]
}
check "a rank that exits with 0 at once ends the others" leaves \
    'rank 0: of 2 processes that were started together on this host, 1 ended before' true
check "a rank that fails at once ends the others" leaves 'non-zero' false

# ---- going on, and being killed ----

other_layout()
{
    # An epoch in one process, the next in two, of a training of two replicas.
    run_alone --replicas 2 --schedule constant --epochs 2 --save whole.onnx \
        && run_alone --replicas 2 --schedule constant --epochs 1 --checkpoint-dir mixed \
        && ranks 2 --schedule constant --checkpoint-dir mixed --resume --save mixed.onnx && cmp whole.onnx mixed.onnx
}
check "a training of one process goes on in two" other_layout

slow=("$ipu" train --data data --epochs 40 --batch-size 4 --threads 1 --model mnist-cnn --no-fold --checkpoint-every 3)
# pid_of RANK: of the instance, not of its parent.
pid_of()
{
    local pid
    for pid in $(pgrep -f "^$ipu train --data data --epochs 40"); do
        if tr '\0' '\n' < "/proc/$pid/environ" 2> /dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1" \
            && tr '\0' '\n' < "/proc/$pid/environ" 2> /dev/null | grep -qx "IPU_RUNTIME_DIR=$IPU_RUNTIME_DIR"; then
            echo "$pid"
            return
        fi
    done
}
# killed LAUNCHER...: rank 1 is killed once there is a checkpoint; all are gone long before the training would end, and it is told.
killed()
{
    local pid=
    ("$@" "${slow[@]}" --checkpoint-dir kill --resume > out 2>&1; echo "code $?" >> out) &
    local launcher=$!
    for ((i = 0; i < 1200; i++)); do
        compgen -G 'kill/checkpoint-*.npz' > /dev/null && pid=$(pid_of 1)
        [ -n "$pid" ] && break
        sleep 0.1
    done
    [ -n "$pid" ] || { cat out; kill "$launcher"; return 1; }
    kill -9 "$pid"
    SECONDS=0
    wait "$launcher"
    cat out
    echo "gone after $SECONDS s"
    [ "$SECONDS" -le 60 ] && [ -z "$(pid_of 0)" ] && ! grep -qx 'code 0' out
}
killed_under_poprun()
{
    killed ./poprun --num-replicas 2 --num-instances 2 --mpi-global-args "--oversubscribe" \
        && grep -qE "rank 1 on host $(hostname) \(PID [0-9]+\) was killed by signal 9" out
}
killed_under_mpirun() { killed mpirun --mca plm isolated --oversubscribe --bind-to none -n 2 && grep -qE 'rank 1 .*exited on signal 9' out; }
nothing_lost() # more epochs than a training has seen when it is killed, and few enough
{
    local same=(--model mnist-cnn --schedule constant --optimizer sgd --lr 0.01)
    rm -rf kill
    slow+=(--schedule constant)
    run_alone --replicas 2 "${same[@]}" --epochs 12 --save undisturbed.onnx || return
    killed_under_poprun || return
    ranks 2 "${same[@]}" --epochs 12 --checkpoint-every 3 --checkpoint-dir kill --resume --save lost.onnx \
        && grep -q 'going on from' log && cmp undisturbed.onnx lost.onnx
}
check "a killed rank ends all, and poprun names it" killed_under_poprun
rm -rf kill
check "so it is under mpirun" killed_under_mpirun
check "what goes on has the bits of a training that was not disturbed" nothing_lost

# ---- poprun ----

environment()
{
    ./poprun --num-replicas 4 --num-instances 2 --mpi-global-args "--oversubscribe" --only-output-from-instance 1 \
        --executable-cache-path "$box/cache" --mpi-local-args "-x MINE" sh -c \
        'echo "instance $IPU_POPRUN_INSTANCE of $IPU_POPRUN_INSTANCES, $IPU_POPRUN_REPLICAS, $IPU_CACHE_DIR, $MINE, $1"' - -v \
        > out 2> err
    cat out err
    grep -qx "\[1,1\]<stdout>:instance 1 of 2, 4, $box/cache, 7, -v" out && [ "$(wc -l < out)" = 1 ] \
        && grep -qE '^[0-9:.]{12} [0-9]+ POPRUN \[I\] mpirun \(PID [0-9]+\) terminated with exit code 0$' err
}
export MINE=7
check "instances know who they are; one of them is heard" environment
partition()
{
    ./poprun -r 2 -n 2 --mpi-global-args --oversubscribe --vipu-partition tmp2 "$ipu" partition list > out 2> err
    cat out err
    grep -q tmp2 out && grep -q 'partition tmp2 was removed' err && ! "$ipu" partition list | grep -q tmp2
}
check "a partition is made and removed" partition
check "an instance that fails is told of" exits 3 'rank [01] on host .* ended with exit code 3' \
    ./poprun -r 2 -n 2 --mpi-global-args --oversubscribe sh -c 'exit 3'
# The leaving one has joined, and ends with 0 before the other has.
unfinished()
{
    printf 'import os, sys; sys.path.insert(0, sys.argv[1]); from openipu.comm import world\nw = world()\nif w.rank == 1: os._exit(0)\nw.broadcast(0, 0); w.agree({})\n' > unfinished.py
    IPU_LIBRARY=$(dirname "$plugin")/libipu.so exits 1 'an instance failed, or ended while others waited for it' timeout 60 \
        ./poprun -r 2 -n 2 --mpi-global-args --oversubscribe "$python" unfinished.py "$sources/python"
}
check "an instance that ends with 0 too early is told of" unfinished
trains() { ./poprun -r 2 -n 2 --mpi-global-args --oversubscribe "$ipu" "${options[@]}" --save pop.onnx && cmp one.onnx pop.onnx; }
check "poprun trains as mpirun does" trains

# ---- two hosts ----

# Hosts of two network namespaces, joined by a pair of devices; instead of ssh, a script that goes there.
make_hosts()
{
    ip netns add "$space-0" && ip netns add "$space-1" \
        && ip link add "v0-$$" netns "$space-0" type veth peer name "v1-$$" netns "$space-1" \
        && ip -n "$space-0" addr add 10.99.7.1/24 dev "v0-$$" && ip -n "$space-1" addr add 10.99.7.2/24 dev "v1-$$" \
        && ip -n "$space-0" link set "v0-$$" up && ip -n "$space-1" link set "v1-$$" up \
        && ip -n "$space-0" link set lo up && ip -n "$space-1" link set lo up
}
over_network()
{
    printf '#!/bin/sh\nhost=$1\nshift\nexec ip netns exec %s-1 unshare --uts sh -c "hostname other; $*"\n' "$space" > agent
    chmod +x agent
    timeout 300 ip netns exec "$space-0" ./poprun --num-replicas 2 --num-instances 2 --host 10.99.7.1,10.99.7.2 \
        --print-topology yes --host-subnet 10.99.7.0/24 \
        --mpi-global-args "--mca plm_rsh_agent $box/agent --mca btl tcp,self --oversubscribe" \
        sh -c 'hostname >&2; exec "$@"' - "$ipu" "${options[@]}" --save hosts.onnx > out 2>&1
    local code=$?
    cat out
    [ "$code" = 0 ] && grep -qE 'hosts +\| +10.99.7.1 +\| +10.99.7.2 +\|' out && grep -q '<stderr>:other' out \
        && cmp one.onnx hosts.onnx
}
if ! command -v ip > /dev/null || ! make_hosts > log 2>&1; then
    skip "network namespaces are not permitted here: $(tail -n 1 log)"
else
    check "two hosts, over the network between them, have the bits of one process" over_network
fi

check_end
