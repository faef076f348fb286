#!/usr/bin/env bash
# Makes sure that the Debian packages of the sets named as arguments are there.
# Installs what is missing with apt-get, as root or through sudo; silent if nothing is.
set -euo pipefail

declare -A sets=(
    [build]="gcc libc6-dev make meson ninja-build pkg-config flex bison
        libdnnl-dev libxsmm-dev
        libjansson-dev libzip-dev libpng-dev zlib1g-dev
        libprotobuf-c-dev protobuf-c-compiler libonnx-dev
        libmicrohttpd-dev
        libncurses-dev
        libopenmpi-dev"
    [test]="libcmocka-dev python3 python3-torch python3-numpy libopenblas0-openmp
        python3-torchvision python3-tqdm python3-sklearn python3-pytest python3-pytest-timeout python3-venv python3-pip python3-setuptools python3-wheel
        libonnx-testdata python3-onnx
        chromium chromium-driver python3-selenium prometheus python3-prometheus-client
        openmpi-bin iproute2 procps
        tmux"
    [check]="clang clang-format clang-tidy cppcheck shellcheck binutils"
    [sanitize]="gcc util-linux"
    [fuzz]="clang libclang-rt-14-dev"
    [valgrind]="valgrind"
)

wanted=
for set in "$@"; do
    [ -n "${sets[$set]:-}" ] || { echo "deps.sh: no set \"$set\"; there are: ${!sets[*]}" >&2; exit 2; }
    wanted+=" ${sets[$set]}"
done

if ! command -v dpkg-query > /dev/null; then
    echo "note: this is not Debian; what these packages hold must be installed:$wanted" >&2
    exit 0
fi

present=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2> /dev/null | sed -n 's/^installed //p' || true)
missing=
for package in $wanted; do
    grep -qxF -- "$package" <<< "$present" || missing+=" $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo > /dev/null; then
    as_root=sudo
else
    echo "missing packages, and neither root nor sudo to install them. As root: apt-get install$missing" >&2
    exit 1
fi
echo "installing from Debian:$missing"
$as_root apt-get update -qq || echo "note: apt-get update failed; trying with the lists there are" >&2
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
