#!/usr/bin/env bash
# The tests of python/ with the library just built, and a wheel of it in an environment of its own. Ends with
# "N passed, N failed, N skipped". BUILD: the build folder.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
python=/usr/bin/python3
if ! "$python" -c 'import torch, pytest, pytest_timeout' 2> /dev/null; then
    echo "skip: needs python3-torch, python3-pytest and python3-pytest-timeout"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
export IPU_LIBRARY=$build/src/libipu.so PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
unset POPTORCH_CACHE_DIR IPU_CACHE_DIR

status=0
"$python" -m pytest -q -p no:cacheprovider --tb=short -r fE python/tests > "$box/log" 2>&1 || status=$?
cat "$box/log"
count() { tail -n 3 "$box/log" | grep -oE "[0-9]+ $1" | tail -n 1 | grep -oE '[0-9]+' || echo 0; }
passed=$(count passed) failed=$(($(count failed) + $(count errors\?))) skipped=$(count skipped)
if [ "$status" -gt 1 ] && [ "$failed" = 0 ]; then failed=1; fi

proves() # NAME COMMAND...
{
    local name=$1
    shift
    if "$@" > "$box/log" 2>&1; then
        echo "ok   $name"
        passed=$((passed + 1))
    else
        tail -n 40 "$box/log"
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
}

# As a user would: pip makes a wheel, and a clean environment beside Debian's torch runs it from elsewhere. It installs the hook
# for imports, and leaves nothing behind.
installs()
{
    cp -r pyproject.toml setup.py README.md LICENSE scripts include python "$box/source" || return
    "$python" -m venv --system-site-packages "$box/venv" || return
    (cd "$box/source" && "$box/venv/bin/pip" install -q --no-build-isolation .) || return
    unset IPU_LIBRARY PYTHONPATH
    (cd / && "$box/venv/bin/python" - << 'END'
import gcipuinfo, poptorch, torch
assert len(gcipuinfo.gcipuinfo().getDevices()) >= 1 and "/venv/" in gcipuinfo.__file__
model = torch.nn.Linear(3, 2)
x = torch.ones(4, 3)
assert torch.allclose(poptorch.inferenceModel(model)(x), model(x), atol=1e-6)
assert "/venv/" in poptorch.__file__, poptorch.__file__
END
    ) || return
    (cd / && "$box/venv/bin/python" -c 'import sys; assert "openipu.hook" in sys.modules') || return
    "$box/venv/bin/pip" uninstall -q -y openipu || return
    ! find "$box/venv" -name 'openipu*' | grep . && (cd / && "$box/venv/bin/python" -W error -c 'import sys; assert "openipu" not in sys.modules')
}
if "$python" -c 'import venv, ensurepip, setuptools, wheel' 2> /dev/null; then
    mkdir "$box/source"
    proves "pip install . gives a package that works" installs
else
    echo "skip: pip install needs python3-venv, python3-setuptools and python3-wheel"
    skipped=$((skipped + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
