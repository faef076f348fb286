#!/usr/bin/env bash
# The page of `ipu monitor --web` in a browser (Debian: chromium chromium-driver python3-selenium).
# Usage: web_browser_test.sh [IPU]. Screenshots: $LOGS/web, or $BUILD/logs/web. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
BUILD=$(realpath "$build") IPU_BIN=$(realpath "${1:-${IPU_BIN:-$build/tools/ipu}}")
SHOTS=${LOGS:-$BUILD/logs}/web
export BUILD IPU_BIN SHOTS PYTHONDONTWRITEBYTECODE=1
for program in "$IPU_BIN" "$BUILD/tests/hold" "$BUILD/tests/busy"; do
    [ -x "$program" ] || { echo "no $program to test with: build it first" >&2; exit 1; }
done

skip() # WHY
{
    echo "# skipped: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

# Debian's Python has Debian's modules; another may be first on the path.
python=
for p in python3 /usr/bin/python3; do "$p" -c 'import selenium' 2> /dev/null && { python=$p; break; }; done
[ -n "$python" ] || skip "no selenium for Python here (Debian: python3-selenium)"
command -v chromium > /dev/null || skip "no chromium here"
[ -x /usr/bin/chromedriver ] || skip "no chromedriver here (Debian: chromium-driver)"

mkdir -p "$SHOTS"
exec "$python" tests/web/browser_test.py
