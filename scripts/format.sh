#!/usr/bin/env bash
# Formats all C files in place.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh check
scripts/sources.sh own | xargs -r -d '\n' clang-format -i
