#!/usr/bin/env bash
# `ipu train` killed at random moments and gone on with: the saved network and the last checkpoint have the bits of an
# uninterrupted training, and what stops it (damage, a full or locked folder) is told. Usage: train_kill_test.sh [IPU].
# KILLS: how often, 12 unless told. Ends with "N passed, N failed". tests/train/train_crash_test.c does it 200 times in C.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
check_alone
export IPU_CACHE_DIR=$box/cache
unset IPU_CACHE_LIMIT
kills=${KILLS:-12}
RANDOM=1

# ---- pictures: noise and labels will do ----

mkdir data && idx data/train 100 && idx data/t10k 20

# ---- trainings ----

# In 4 epochs of 6 runs, with 4 pictures left over; a checkpoint after each run.
train() # FOLDER OPTION...
{
    local folder=$1
    shift
    exec "$ipu" train --data data --epochs 4 --batch-size 4 --device-iterations 2 --gradient-accumulation 2 --optimizer adam \
        --lr 0.01 --checkpoint-dir "$folder" --checkpoint-every 1 --save "$folder.onnx" "$@"
}

whole() { (train whole) && ls whole && [ -f whole/checkpoint-000000000024.npz ]; }

# Nothing that was half written has the name of a checkpoint: a resume that passed one over would leave its .damaged.
unharmed() # FOLDER
{
    ls -a "$1" 2>&1
    ! ls "$1"/*.damaged 2> /dev/null
}

# As often as asked, from the beginning again where it ends before; then to its end.
killed() # FOLDER
{
    local pid code n=0
    while [ "$n" -lt "$kills" ]; do
        (train "$1" --resume > out 2>&1) &
        pid=$!
        sleep "0.$(printf %03d $((RANDOM % 200)))"
        kill -9 "$pid" 2> /dev/null
        code=0
        wait "$pid" 2> /dev/null || code=$?
        cat out
        unharmed "$1" || return
        case $code in
            137) n=$((n + 1)) ;;
            0) cmp whole.onnx "$1.onnx" && rm -r "$1" "$1.onnx" || return ;;
            *) return 1 ;;
        esac
    done
    (train "$1" --resume) && unharmed "$1"
}

# The checkpoints also tell how long it took: what is not their text is compared.
same_state() # FILE FILE
{
    /usr/bin/python3 - "$1" "$2" << 'END'
import sys
import numpy as np
a, b = (np.load(f) for f in sys.argv[1:])
differ = [n for n in a.files if n != "checkpoint/text" and a[n].tobytes() != b[n].tobytes()]
print(len(a.files), "arrays, differ:", differ)
sys.exit(a.files != b.files or differ != [])
END
}

check "a training comes to its end" whole
check "one that is killed comes to its end" killed killed
check "its network has the same bits" cmp whole.onnx killed.onnx
if /usr/bin/python3 -c 'import numpy' 2> /dev/null; then
    check "its last checkpoint has the same bits" same_state {whole,killed}/checkpoint-000000000024.npz
fi

# ---- what stops it ----

refused() # PATTERN FOLDER OPTION...: ends with 1 and says so; the checkpoints are what they were
{
    local pattern=$1 before code=0
    shift
    before=$(md5sum "$1"/*.npz)
    (train "$@") > out 2> err || code=$?
    cat out err
    [ "$code" = 1 ] && grep -qE -- "$pattern" err && [ "$before" = "$(md5sum "$1"/*.npz)" ]
}

damaged() # the newest of a folder is cut off, as by a copy: it goes on from the one before
{
    cp -r whole cut || return
    truncate -s 1000 cut/checkpoint-000000000024.npz
    (train cut --resume) || return
    [ -f cut/checkpoint-000000000024.npz.damaged ] && cmp whole.onnx cut.onnx
}

in_use() # by a training that is going on
{
    local pid code=0
    (train busy --epochs 1000 > /dev/null 2>&1) &
    pid=$!
    for ((i = 0; i < 6000; i++)); do
        ls busy/*.npz > /dev/null 2>&1 && break
        sleep 0.01
    done
    (train busy --resume) > out 2> err || code=$?
    kill -9 "$pid"
    wait "$pid" 2> /dev/null
    cat out err
    [ "$code" = 1 ] && grep -qE "process [0-9]+ is writing checkpoints to it" err
}

full() # the disk, as far as write can tell: files may not pass 100 blocks of 1024 bytes
{
    mkdir full
    cp whole/checkpoint-000000000022.npz full
    (trap '' XFSZ && ulimit -f 100 && refused "cannot write .*full/checkpoint-0*23\.npz: .*File too large" full --resume)
}

check "a checkpoint that is cut off is passed over" damaged
check "another training's folder is not used without --resume" refused "earlier training" whole
check "another seed is refused" refused "seed" whole --resume --seed 7
check "another model is refused" refused "model" whole --resume --model mnist-cnn
check "a folder in use is refused" in_use
check "a full disk is told of" full

check_end
