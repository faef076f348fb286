#!/usr/bin/env bash
# examples/mnist/train.c: learns digits that were drawn, saves what it learnt, says what is wrong with its
# folder, and is no longer than the PopTorch script it follows. Usage: mnist_example_test.sh [IPU]. Ends with
# "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
train=$(dirname "$(dirname "$ipu")")/examples/mnist_train
[ -x "$train" ] || { echo "no $train to test: build it first" >&2; exit 1; }
source=$(realpath examples/mnist/train.c)
cd "$box" || exit 1

# The epochs' losses fall and more than 70 of 100 digits are told right.
learns()
{
    "$train" digits 3 | tee out && cat out \
        && awk '/^epoch [1-3]: loss/ { n++; if (n > 1 && $4 >= last) exit 1; last = $4 }
                /^Eval accuracy:/ { sub("%", "", $3); right = $3 }
                END { exit !(n == 3 && right > 70) }' out
}

fails() { ! "$train" nowhere 1 > out 2>&1 && grep -q nowhere out; }

# 53 lines are code in the sections of the script (seed document 2, section IV), 65 with blank lines.
is_short()
{
    [ "$(wc -l < "$source")" -le 65 ] && [ "$(grep -v '^ */\*.*\*/$' "$source" | grep -c .)" -le 53 ]
}

check "digits are drawn" "$ipu" dataset digits --out digits --count 2000 --test-count 320
check "it learns them" learns
check "the weights are saved" test -s classifier.npz
check "a folder that is not there is named" fails
check "it is no longer than PopTorch's" is_short

check_end
