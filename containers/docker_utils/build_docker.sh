#!/usr/bin/env bash
# Builds the image of containers/Dockerfile from this tree.
set -euo pipefail

usage()
{
    cat << 'END'
Usage: build_docker.sh [--with-torch] [--with-compiler] [--with-mpi] [-- ARGUMENT...]

Builds the image IMG (default: openipu:latest) with DOCKER (default: docker; podman works too).

  --with-torch     with python3-torch, for poptorch
  --with-compiler  with gcc, for codelets from source and for programs in C
  --with-mpi       with Open MPI, for poprun
  -- ARGUMENT...   arguments of `docker build`, as they are

Variables: IMG, DOCKER, and PACKAGES: more of Debian's packages, between blanks.

Exit status:
  0  the image is built
  1  there is no DOCKER; otherwise, what it gave
  2  the command line is wrong
END
}

wrong() { echo "build_docker.sh: $*" >&2; echo "Try: build_docker.sh --help" >&2; exit 2; }

: "${IMG:=openipu:latest}" "${DOCKER:=docker}" "${PACKAGES:=}"
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --with-torch) PACKAGES+=" python3-torch" ;;
        --with-compiler) PACKAGES+=" gcc libc6-dev" ;;
        --with-mpi) PACKAGES+=" openmpi-bin" ;;
        --) shift; break ;;
        *) wrong "unexpected \"$1\"; arguments of $DOCKER go behind --" ;;
    esac
    shift
done
[[ $PACKAGES =~ ^[a-z0-9.+\ -]*$ ]] || wrong "PACKAGES: expected names of Debian's packages between blanks, found \"$PACKAGES\""
command -v "$DOCKER" > /dev/null || { echo "build_docker.sh: there is no $DOCKER on the PATH: install it, or set DOCKER" >&2; exit 1; }

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
exec "$DOCKER" build -f "$top/containers/Dockerfile" -t "$IMG" --build-arg "PACKAGES=${PACKAGES# }" "$@" "$top"
