#!/usr/bin/env bash
# Builds and runs the tests: the tiny ones first, then the rest of the unit tests, tests/*/*.c, tests of kernels
# with narrower vectors, the examples, tests/*.sh, what the manuals show. Argument "tiny": only those. SUITE_NAME: what the results are called.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test
only=${1:-}
tally_begin "${SUITE_NAME:-test${only:+-$only}}"

tests=$( { scripts/sources.sh unit; scripts/sources.sh tests; } | wc -l)
targets=all
[ "$tests" = 0 ] || targets="all tests"
if ! scripts/build.sh $targets; then
    tally fail build
    tally_end
fi

# Tests of minutes in which one thread does all have nothing for TSan to see.
is_left_out() # NAME
{
    [ "$SUITE" = tsan ] || return 1
    case $1 in
        ops_test | sweep_test | fold_ops_test | op.conv.cpu.wide_test | op.conv.cpu.winograd_test) return 0 ;;
        *) return 1 ;;
    esac
}

# Lines "NAME COMMAND...": base and target with the first example are the tiny tests.
unit_lines()
{
    scripts/sources.sh unit | sed 's:^src/::; s:\.c$::' | while read -r path; do
        case $path in
            base/* | target/*) group=tiny ;;
            *) group=rest ;;
        esac
        if [ $group != "$1" ] || is_left_out "${path//\//.}"; then continue; fi
        say "${path//\//.} $BUILD/src/${path//\//_}"
    done
}

# Kernels once more with less than this CPU has: IPU_CPU (docs/performance.md).
capped_lines()
{
    local level path
    for level in generic avx2; do
        for path in ops_test networks_test; do
            say "$level.$path env IPU_CPU=$level $BUILD/tests/$path"
        done
        scripts/sources.sh unit | sed -n 's:^src/\(op/.*\|base/cpu_test\|base/type_test\)\.c$:\1:p' |
            while read -r path; do
                say "$level.${path//\//.} env IPU_CPU=$level $BUILD/src/${path//\//_}"
            done
    done
}

example_lines()
{
    scripts/sources.sh examples | sed 's:^examples/::; s:\.c$::' | while read -r name; do
        case $name in
            01_*) group=tiny ;;
            *) group=rest ;;
        esac
        if [ $group = "$1" ]; then say "example.$name scripts/run_examples.sh $name"; fi
    done
}

cross_lines()
{
    local names name
    names=$(scripts/sources.sh tests | sed 's:.*/::; s:\.c$::')
    # The longest begins first.
    for name in ops_test $(grep -vx ops_test <<< "$names"); do
        is_left_out "$name" || say "$name $BUILD/tests/$name"
    done
}

script_lines()
{
    local path name some
    for path in tests/*_test.sh; do
        [ -f "$path" ] || continue
        name=$(basename "$path" .sh)
        # A sanitized library cannot be linked as a user would.
        if [ "$SUITE" != test ] && [ "$name" = install_test ]; then continue; fi
        # MPI is not sanitized, and leaks; src/comm and what uses it have tests with threads instead of processes.
        if [ "$SUITE" != test ] && [ "$name" = distributed_test ]; then continue; fi
        # It builds a tree of its own.
        if [ "$SUITE" != test ] && [ "$name" = adding_an_op_test ]; then continue; fi
        # The tools it runs have scripts of their own.
        if [ "$SUITE" != test ] && [ "$name" = operators_test ]; then continue; fi
        if [ $name = docs_test ]; then continue; fi # below
        # Chromium takes all of the time, and web_test asks the same server.
        if [ "$SUITE" != test ] && [ "$name" = web_browser_test ]; then continue; fi
        # What it preloads would have to come before the sanitizer, which has the same sweep.
        if [ "$SUITE" != test ] && [ "$name" = threads_test ]; then continue; fi
        # How well each precision learns is no question for sanitizers; unit tests of training have all of them.
        if [ "$SUITE" != test ] && [ "$name" = precision_test ]; then continue; fi
        # Python would have to be sanitized first.
        if [ "$SUITE" != test ] && [ "$name" = poptorch_test ]; then continue; fi
        # Sanitized, the larger networks would take minutes and say nothing that their kernels' tests do not.
        some=
        if [ "$SUITE" != test ] && [ "$name" = torch_training_test ]; then some="$BUILD seed-cnn lstm"; fi
        say "$name bash $path${some:+ $some}" # xargs takes a blank at the end as "goes on"
    done
}

# What the manuals show, a test for each.
document_lines()
{
    local path
    for path in README.md docs/*.md; do say "docs.$(basename "$path" .md) bash tests/docs_test.sh $path"; done
    say "docs_test bash tests/docs_test.sh --self"
}

# No test builds anew beneath the others.
export IPU_BUILT=1
export IPU_BIN=$PWD/$BUILD/tools/ipu
case $BUILD in /*) IPU_BIN=$BUILD/tools/ipu ;; esac

run_lines() # runs up to $JOBS programs at a time
{
    mkdir -p "$LOGS/$SUITE"
    local lines
    lines=$(cat)
    [ -n "$lines" ] || return 0
    xargs -P "$JOBS" -L 1 scripts/run_test.sh "$LOGS/$SUITE" <<< "$lines"
    while read -r name _; do cat "$LOGS/$SUITE/$name.tally"; done <<< "$lines" >> "$TALLY"
}

# Where the time went: seconds by the clock and of CPU time.
slowest()
{
    awk '{ sub(/.*\//, "", FILENAME); sub(/\.time$/, "", FILENAME); printf "%7.1f s %7.1f s CPU  %s\n", $1, $2 + $3, FILENAME }' \
        "$LOGS/$SUITE"/*.time | sort -rn | sed "${1}q"
}

rm -rf "${LOGS:?}/$SUITE"
{ unit_lines tiny; example_lines tiny; } | run_lines
if [ "$only" != tiny ]; then
    unit_lines rest | run_lines
    cross_lines | run_lines
    [ "$SUITE" != test ] || [ "$(uname -m)" != x86_64 ] || capped_lines | run_lines
    example_lines rest | run_lines
    script_lines | run_lines
    [ "$SUITE" != test ] || document_lines | run_lines
    say "the slowest of $SUITE:"
    slowest 12
fi
tally_end
