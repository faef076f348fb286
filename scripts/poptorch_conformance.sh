#!/usr/bin/env bash
# The public PopTorch tests, from a checkout outside of this repository, against python/poptorch. CHECKOUT: that checkout, of
# github.com/graphcore/poptorch. PYTHON: the interpreter. Arguments go to python/conformance/run.py; --help tells them.
. "$(dirname "$0")/lib.sh"
[ -n "${CHECKOUT:-}" ] || die "set CHECKOUT to a checkout of github.com/graphcore/poptorch, e.g. make poptorch-conformance CHECKOUT=../poptorch"
mkdir -p "$LOGS"
export IPU_LIBRARY=${IPU_LIBRARY:-$PWD/$BUILD/src/libipu.so}
[ -e "$IPU_LIBRARY" ] || scripts/build.sh
exec "${PYTHON:-/usr/bin/python3}" python/conformance/run.py "$CHECKOUT" \
    --failures "$LOGS/poptorch-failures.txt" --json "$LOGS/poptorch.json" "$@"
