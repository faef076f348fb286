#!/usr/bin/env bash
# All tests and examples with the library's assertions on, under ASan + UBSan and then under TSan.
# Each has a build folder of its own inside the first.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test sanitize

options="-Dassertions=true -Dwerror=false -Db_lundef=false"
export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=die_after_fork=0:allocator_may_return_null=1

# TSan's fixed memory layout does not go with much address randomisation.
no_aslr=
! setarch -R true 2> /dev/null || no_aslr="setarch -R"

status=0
tallies=()
for kind in ${SANITIZERS:-asan tsan}; do
    case $kind in
        asan) sanitize=address,undefined wrapper= ;;
        tsan) sanitize=thread wrapper=$no_aslr ;;
    esac
    say "== $kind"
    IPU_INNER_RUN=1 SUITE_NAME=$kind BUILD=$BUILD/$kind MESON_OPTIONS="-Db_sanitize=$sanitize $options" \
        IPU_TEST_WRAPPER=$wrapper scripts/test.sh || status=1
    tallies+=("$LOGS/$kind.tally")
done
[ -n "${IPU_INNER_RUN:-}" ] || count_tallies "${tallies[@]}" || status=1
exit "$status"
