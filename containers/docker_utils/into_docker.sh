#!/usr/bin/env bash
# A container to work in: started once, entered as often as one likes, stopped.
set -euo pipefail

usage()
{
    cat << 'END'
Usage: into_docker.sh start [--with-root] [-- ARGUMENT...]
       into_docker.sh into [--with-root] [COMMAND...]
       into_docker.sh stop

  start        starts the container CONTAINER_ID from the image IMG, with the tree of OpenIPU at /workspace and the
               virtual IPUs of this user (gc-docker; where it is not installed, with IPUs of its own)
  into         runs COMMAND in it (default: bash)
  stop         stops and removes it

  --with-root  as root: to install packages, or to add a user (add_user.sh). Such a container has IPUs of its own, unless
               it is root who calls: the state of devices is the user's
  -- ARGUMENT  arguments of `docker run`, as they are

Variables (or lines of an envs.sh beside envs.sh.template, which is read first): IMG (openipu:latest), CONTAINER_ID
(openipu-USER), DOCKER (docker; podman works too), WORKSPACE (the folder at /workspace).

Exit status:
  0  done; into: what COMMAND gave
  1  there is no DOCKER; otherwise, what it gave
  2  the command line is wrong
END
}

fail() { echo "into_docker.sh: $*" >&2; exit 1; }
wrong() { echo "into_docker.sh: $*" >&2; echo "Try: into_docker.sh --help" >&2; exit 2; }

containers=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
top=$(dirname "$containers")
# shellcheck source=/dev/null
if [ -f "$containers/envs.sh" ]; then . "$containers/envs.sh"; fi
: "${IMG:=openipu:latest}" "${CONTAINER_ID:=openipu-$(id -un)}" "${DOCKER:=docker}" "${WORKSPACE:=$top}"

action=${1:-}
case $action in
    -h | --help) usage; exit 0 ;;
    start | into | stop) shift ;;
    "") wrong "expected start, into or stop" ;;
    *) wrong "expected start, into or stop, found \"$action\"" ;;
esac
as_root=
if [ "${1:-}" = --with-root ]; then
    [ "$action" != stop ] || wrong "--with-root does not go with stop"
    as_root=1
    shift
fi
case ${1:-} in
    -h | --help) usage; exit 0 ;;
    --) shift ;;
    -*) wrong "no option $1" ;;
    "") ;;
    *) [ "$action" = into ] || wrong "unexpected \"$1\"; arguments of $DOCKER go behind --" ;;
esac
command -v "$DOCKER" > /dev/null || fail "there is no $DOCKER on the PATH: install it, or set DOCKER"

# The command that gives a container this user's IPUs: installed, or built in this tree.
launcher()
{
    local name
    name=$(basename "$DOCKER")
    if command -v "gc-$name" > /dev/null; then
        run=("gc-$name" --)
    elif [ -x "$top/build/tools/ipu" ]; then
        run=("$top/build/tools/ipu" "$name" --)
    else
        echo "into_docker.sh: there is no gc-$name here: the container has IPUs of its own" >&2
        run=("$DOCKER" run)
    fi
}

start()
{
    local run options=(-d --name "$CONTAINER_ID" --mount "type=bind,source=$WORKSPACE,target=/workspace" -w /workspace)
    case $WORKSPACE in *[,\"]*) fail "WORKSPACE: expected a path without commas and quotes, found $WORKSPACE" ;; esac
    if [ -n "$as_root" ] && [ "$(id -u)" != 0 ]; then
        run=("$DOCKER" run --user 0:0)
    else
        launcher
    fi
    # bash, which collects what processes leave behind; docker's --init needs a program that podman may not have.
    "${run[@]}" "${options[@]}" "$@" "$IMG" bash -c 'trap "exit 0" TERM; sleep infinity & wait'
}

into()
{
    local options=(-i)
    if [ -t 0 ] && [ -t 1 ]; then options+=(-t); fi
    if [ -n "$as_root" ]; then options+=(--user 0:0); fi
    [ $# -gt 0 ] || set -- bash
    exec "$DOCKER" exec "${options[@]}" "$CONTAINER_ID" "$@"
}

case $action in
    start) start "$@" ;;
    into) into "$@" ;;
    stop) exec "$DOCKER" rm -f "$CONTAINER_ID" ;;
esac
