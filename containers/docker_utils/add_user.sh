#!/usr/bin/env bash
# Adds a user to a running container, so that files it writes and devices it attaches to are that user's on the host too.
set -euo pipefail

usage()
{
    cat << 'END'
Usage: add_user.sh [--name NAME] [--uid N] [--gid N]

To be run inside a container, as root: into_docker.sh start --with-root, then into_docker.sh into --with-root.
A user that is there already with this name and these numbers is left as it is.

  --name NAME  the user (default: ipu-dev)
  --uid N      its number: that of the user on the host, `id -u` there (default: the owner of the current folder)
  --gid N      the number of its group (default: that of the current folder)

Exit status:
  0  the user is there
  1  not root, the name or a number is another's, or the user could not be added
  2  the command line is wrong
END
}

fail() { echo "add_user.sh: $*" >&2; exit 1; }
wrong() { echo "add_user.sh: $*" >&2; echo "Try: add_user.sh --help" >&2; exit 2; }

name=ipu-dev uid='' gid=''
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --name | --uid | --gid)
            [ $# -ge 2 ] || wrong "$1 needs an argument"
            case $1 in --name) name=$2 ;; --uid) uid=$2 ;; --gid) gid=$2 ;; esac
            shift 2 ;;
        *) wrong "unexpected \"$1\"" ;;
    esac
done
[[ $name =~ ^[a-z_][a-z0-9_-]{0,31}$ ]] || wrong "--name: expected small letters, digits, - and _, found \"$name\""
for number in "$uid" "$gid"; do
    [[ $number =~ ^[0-9]{0,9}$ ]] || wrong "expected a number, found \"$number\""
done
[ "$(id -u)" = 0 ] || fail "only root may add users: start the container with into_docker.sh start --with-root"
uid=${uid:-$(stat -c %u .)} gid=${gid:-$(stat -c %g .)}
[ "$uid" != 0 ] || fail "user 0 is root: give --uid, the number of the user on the host"

if entry=$(getent passwd "$name"); then
    IFS=: read -r _ _ has_uid has_gid _ <<< "$entry"
    [ "$has_uid:$has_gid" = "$uid:$gid" ] || fail "user $name is there, with numbers $has_uid:$has_gid, not $uid:$gid: take another --name"
    echo "user $name is there already ($uid:$gid)"
    exit 0
fi
if entry=$(getent passwd "$uid"); then fail "number $uid is user ${entry%%:*}'s: use that one, or give another --uid"; fi
getent group "$gid" > /dev/null || groupadd --gid "$gid" "$name"
useradd --create-home --uid "$uid" --gid "$gid" --shell /bin/bash "$name"
echo "added user $name ($uid:$gid)"
