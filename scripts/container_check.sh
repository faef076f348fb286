#!/usr/bin/env bash
# Runs the steps of containers/Dockerfile without Docker: each stage is a folder that debootstrap made, each RUN a chroot.
# Then the image is used as containers are. Needs root, debootstrap and a mirror of Debian's; says so, and skips, otherwise.
#   --list         prints the instructions, one on a line, as they would be run
#   --keep         leaves the folders, and says where
# CONTAINER_MIRROR: of Debian's, if apt's own lists have none of this release. CONTAINER_PACKAGES: the argument PACKAGES.
. "$(dirname "$0")/lib.sh"
dockerfile=containers/Dockerfile
release=bookworm # debian:12
base_image=debian:12

# Comments and empty lines go, lines that end in a backslash go on.
instructions()
{
    sed -E '/^[[:space:]]*(#|$)/d' "$dockerfile" | sed -E -e ':more' -e '/\\$/ { N; s/[[:space:]]*\\\n[[:space:]]*/ /; b more' -e '}'
}

skip() # WHY
{
    say "# skipped: $1"
    say "0 passed, 0 failed, 1 skipped"
    exit 0
}

# Lines "URI SUITE" of the release's main component, as apt is configured here.
mirrors()
{
    if [ -n "${CONTAINER_MIRROR:-}" ]; then
        say "$CONTAINER_MIRROR $release"
    elif command -v apt-get > /dev/null; then
        apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
            | awk -v r="$release" '$2 ~ "^" r "(-updates|-security)?$" && $3 == "main" { print $1, $2 }' | sort -u
    fi
}

# The one that has the release itself.
mirror() { mirrors | awk -v r="$release" '$2 == r && !n++ { sub("/$", "", $1); print $1 }'; }

keep=
case ${1:-} in
    --list) instructions; exit 0 ;;
    --keep) keep=1 ;;
    --inside) ;; # again, with mounts of its own
    "") ;;
    *) say "container_check.sh: no option \"$1\"; there are --list and --keep" >&2; exit 2 ;;
esac

if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || skip "chroot needs root"
    scripts/deps.sh container || skip "debootstrap cannot be installed here"
    command -v debootstrap > /dev/null || skip "there is no debootstrap here"
    unshare --mount true 2> /dev/null || skip "this machine gives no mounts of their own to processes"
    [ -n "$(mirror)" ] || skip "apt knows no mirror of $release here: set CONTAINER_MIRROR"
    wget -q --spider --timeout=20 --tries=2 "$(mirror)/dists/$release/Release" || skip "the mirror $(mirror) does not answer"
    work=$(mktemp -d)
    # The mounts are not seen from here, so that nothing but the folders is removed.
    if [ -n "$keep" ]; then say "the folders are in $work"; else trap 'rm -rf --one-file-system "$work"' EXIT; fi
    CONTAINER_WORK=$work unshare --mount --propagation private "$0" --inside
    exit
fi

# ---- from here on, mounts are this process's own, and end with it ----

work=$CONTAINER_WORK
tally_begin container-check
declare -A roots=()
root='' user=root folder=/ health=''
environment=()

# The context: the tree, without what .dockerignore names.
make_context()
{
    local pattern excluded=()
    while read -r pattern; do
        case $pattern in
            "" | "#"*) ;;
            "**/"*) excluded+=(--no-anchored "--exclude=${pattern#??/}") ;;
            *) excluded+=(--anchored "--exclude=./$pattern") ;;
        esac
    done < .dockerignore
    mkdir "$work/context"
    tar -c "${excluded[@]}" . | tar -x --no-same-owner -C "$work/context"
}

make_base()
{
    debootstrap --variant=minbase "$release" "$work/base" "$(mirror)" || return
    mirrors | sed 's/.*/deb & main/' > "$work/base/etc/apt/sources.list"
    apt-config dump Acquire | grep -E '^Acquire::https?::Proxy' > "$work/base/etc/apt/apt.conf.d/proxy" || true
    cp -L /etc/resolv.conf "$work/base/etc/resolv.conf"
}

# in_stage USER COMMAND...: with the stage's environment, in its folder, as a container would have it.
in_stage()
{
    local who=$1 home
    shift
    home=$(awk -F : -v who="${who%%:*}" '$1 == who || $3 == who { print $6; exit }' "$root/etc/passwd")
    chroot --userspec="$who" --groups= "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        "HOME=${home:-/}" "${environment[@]}" sh -c 'cd "$0" && exec "$@"' "$folder" "$@"
}

from() # IMAGE [AS NAME]
{
    local n=${#roots[@]}
    root=$work/stage$n
    [ "$1" = "$base_image" ] || { say "FROM: expected $base_image, found $1"; return 1; }
    roots[${3:-$n}]=$root
    user=root folder=/ health='' environment=()
    cp -a "$work/base" "$root" && mount -t proc proc "$root/proc" && mkdir -p "$root/dev/shm" \
        && mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
}

copy() # [--from=STAGE] FROM TO
{
    local top=$work/context from to
    case $1 in --from=*) top=${roots[${1#*=}]}; shift ;; esac
    [ $# = 2 ] || { say "COPY: expected one source and a destination, found: $*"; return 1; }
    from=$top/${1#/}
    case $2 in /*) to=$root$2 ;; *) to=$root${folder%/}/$2 ;; esac
    if [ -d "$from" ]; then
        mkdir -p "$to" && cp -a --no-preserve=ownership "$from/." "$to/"
    else
        mkdir -p "$(dirname "$to")" && cp -a --no-preserve=ownership "$from" "$to"
    fi
}

# The words of LABEL, ENV and ARG are a shell's; the file is ours.
define() # KIND TEXT
{
    local pair words
    eval "words=($2)"
    for pair in "${words[@]}"; do
        case $1:$pair in
            ARG:PACKAGES=*) environment+=("PACKAGES=${CONTAINER_PACKAGES:-${pair#*=}}") ;;
            ARG:*=* | ENV:*=*) environment+=("$pair") ;;
            LABEL:*=*) ;;
            *) say "$1: expected NAME=VALUE, found $pair"; return 1 ;;
        esac
    done
}

perform() # KIND TEXT
{
    case $1 in
        FROM) from $2 ;;
        COPY) copy $2 ;;
        RUN) in_stage "$user" /bin/sh -c "$2" ;;
        WORKDIR) folder=$2 && mkdir -p "$root$folder" ;;
        USER) user=$2 && grep -q "^$user:" "$root/etc/passwd" ;;
        ARG | ENV | LABEL) define "$1" "$2" ;;
        HEALTHCHECK) health=${2#*CMD } ;;
        CMD) in_stage "$user" sh -c 'command -v "$0"' "$(cut -d '"' -f 2 <<< "$2")" ;;
        *) say "no instruction $1 is known here: see $dockerfile"; return 1 ;;
    esac
}

# As `step`, in this shell, since instructions set what the next ones are run with; the first that fails ends it.
instruction() # NUMBER TEXT
{
    local log began=$SECONDS
    log=$(log_of "step$1")
    if ! perform "${2%% *}" "${2#* }" > "$log" 2>&1; then
        tail -n 40 "$log"
        tally fail "$2"
        tally_end
    fi
    tally pass "$2 ($((SECONDS - began)) s)"
}

step "debootstrap $release" make_base
[ -d "$work/base/etc" ] || tally_end
step "the context" make_context
n=0
while read -r line <&3; do
    n=$((n + 1))
    instruction $n "$line" 3<&-
done 3< <(instructions)

# ---- the image, as containers use it ----

verify=/usr/local/share/ipu/verify.sh
verified() { in_stage "$1" bash "$verify"; }
not_root() { [ "$user" != root ] && [ "$(in_stage "$user" id -u)" != 0 ]; }
healthy() { [ -n "$health" ] && in_stage "$user" /bin/sh -c "$health"; }
adds_user()
{
    in_stage root bash /usr/local/share/ipu/add_user.sh --name ann --uid 4321 && in_stage ann sh -c 'touch ~/x && [ "$(id -u)" = 4321 ]'
}
no_sources() { [ ! -e "$root/src" ] && [ -z "$(ls -A "$root/var/lib/apt/lists")" ]; }
no_compiler() { [[ " ${CONTAINER_PACKAGES:-} " == *" gcc "* ]] || [ ! -e "$root/usr/bin/gcc" ]; }

# Two containers: processes of one user with numbers of their own, and the folder of the state, which they share.
share=$work/share
install -d -o 1000 -g 1000 -m 700 "$share"
contained() # COMMAND...
{
    unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" bash -c 'mkdir -p "$0/run/openipu" && mount --bind "$1" "$0/run/openipu" \
        && shift && exec chroot --userspec=1000:1000 --groups= "$0" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp IPU_RUNTIME_DIR=/run/openipu "$@"' \
        "$root" "$share" "$@"
}
hold='
import ctypes, sys, openipu
from openipu.library import check, lib
device = ctypes.c_void_p()
check(lib().ipu_device_open_any(ctypes.c_int64(1), ctypes.byref(device)))
check(lib().ipu_device_attach(device, ctypes.c_double(0)))
print("attached", lib().ipu_device_id(device), flush=True)
sys.stdin.read()'
exclude_each_other()
{
    local id='' input status=0
    coproc HOLDER { contained IPU_DEVICE_ID=1 python3 -c "$hold"; }
    read -r -t 120 _ id <&"${HOLDER[0]}" || true
    [ "$id" = 1 ] || { say "the first attached to \"$id\", not to 1"; status=1; }
    contained gc-monitor | tee "$work/monitor" || status=1
    grep -q 'attached from other namespaces' "$work/monitor" || status=1
    contained IPU_DEVICE_ID=1 python3 -c "$hold" < /dev/null > "$work/second" 2>&1 && status=1
    cat "$work/second"
    grep -q 'none within IPU_DEVICE_ID=1 is free' "$work/second" || status=1
    contained IPU_DEVICE_ID=2 python3 -c "$hold" < /dev/null | grep -x 'attached 2' || status=1
    input=${HOLDER[1]}
    exec {input}>&-
    wait "$HOLDER_PID" || status=1
    contained gc-monitor | grep 'No attached processes' || status=1
    return "$status"
}

step "the user is not root" not_root
step "verify.sh as the image's user" verified "$user"
grep -E '^(not )?ok|^# skipped' "$(log_of "verify.sh as the image's user")" | sed 's/^/    /'
step "verify.sh as root" verified root
step "verify.sh as a user whom the image does not know" verified 54321:54321
step "the health check" healthy
step "add_user.sh adds a user" adds_user
step "neither sources nor apt's lists are left" no_sources
step "there is no compiler that was not asked for" no_compiler
step "two containers exclude each other" exclude_each_other
say "the image takes $(du -sm "$root" --one-file-system | cut -f 1) MiB, $(du -sm "$work/base" | cut -f 1) of them Debian's base; all took $SECONDS s"
tally_end
