#!/usr/bin/env bash
# gc-docker, gc-podman and containers/: the command lines they make, against programs in place of docker and podman that write
# down what they are given; misuse; what the Dockerfile must keep to. Usage: container_test.sh [IPU]. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
top=$PWD
build=${BUILD:-build}
case $build in /*) ;; *) build=$top/$build ;; esac
hold=$build/tests/hold
[ -x "$hold" ] || { echo "no $hold to test with: build it first" >&2; exit 1; }
for name in $(compgen -e | grep -E '^(IPU|IPUOF|GCDA|POPLAR|POPTORCH)_'); do unset "$name"; done
unset IMG CONTAINER_ID DOCKER PACKAGES WORKSPACE FAKE_EXIT

box=$(realpath "$box")
holder=
release() { [ -z "$holder" ] || { kill "$holder" && wait "$holder"; } 2> /dev/null; holder=; }
trap 'release; chmod -R u+w "$box"; rm -rf "$box"' EXIT
chmod 755 "$box"
mkdir -p "$box/home" "$box/bin" "$box/none"
export HOME=$box/home IPU_RUNTIME_DIR=$box/run PYTHONDONTWRITEBYTECODE=1
for name in gc-docker gc-podman gc-info gc-monitor gc-inventory ipu; do ln -s "$ipu" "$box/bin/$name"; done
ln -s "$python" "$box/bin/python3"
containers=$top/containers
utils=$containers/docker_utils
me=$(id -u):$(id -g)

# In place of docker: writes its words down, each behind a nul.
cat > "$box/bin/docker" << 'END'
#!/bin/sh
[ -z "${FAKE_EXIT:-}" ] || { echo "docker: no daemon" >&2; exit "$FAKE_EXIT"; }
printf '%s\0' "$0" "$@" > "$FAKE_ARGV"
END
cp "$box/bin/docker" "$box/bin/podman"
chmod 755 "$box/bin/docker" "$box/bin/podman"
export FAKE_ARGV=$box/argv PATH=$box/bin:$PATH

# ---- what checks are made of ----

# fails CODE PATTERN COMMAND...: that exit code, a line of standard error matches, no output, docker is not started.
fails()
{
    local expected=$1 pattern=$2 code=0
    shift 2
    rm -f "$FAKE_ARGV"
    "$@" > "$box/out" 2> "$box/err" < /dev/null || code=$?
    cat "$box/out" "$box/err"
    [ "$code" = "$expected" ] && [ ! -s "$box/out" ] && [ ! -e "$FAKE_ARGV" ] && grep -qE -- "$pattern" "$box/err"
}

with() { env "$@"; }

matches() # PATTERN COMMAND...: it ends well, and a line of the output does
{
    local pattern=$1 code=0
    shift
    "$@" > "$box/out" || code=$?
    cat "$box/out"
    [ "$code" = 0 ] && grep -qE -- "$pattern" "$box/out"
}

# starts COMMAND... :: WORD...: it ends well, and the program was given these words, no more, no less.
starts()
{
    local command=() found expected
    while [ "$1" != :: ]; do command+=("$1"); shift; done
    shift
    rm -f "$FAKE_ARGV"
    "${command[@]}" || return
    mapfile -d '' found < "$FAKE_ARGV"
    found[0]=$(basename "${found[0]}")
    expected=("$@")
    printf 'expected: %s\n' "$(printf '%q ' "${expected[@]}")"
    printf 'found:    %s\n' "$(printf '%q ' "${found[@]}")"
    [ "$(printf '%q ' "${expected[@]}")" = "$(printf '%q ' "${found[@]}")" ]
}

stays=(bash -c 'trap "exit 0" TERM; sleep infinity & wait')
state=(--env IPU_RUNTIME_DIR=/run/openipu --mount "type=bind,source=$box/run,target=/run/openipu")
given=(--user "$me" "${state[@]}")

# ---- gc-docker: its words ----

check "an image alone" starts gc-docker openipu :: docker run "${given[@]}" openipu
made() { [ "$(stat -c %a "$box/run")" = 700 ]; }
check "the folder of the state is made before" made
check "behind --" starts gc-docker -- --rm -it openipu gc-inventory -j :: docker run "${given[@]}" --rm -it openipu gc-inventory -j
check "ipu docker" starts ipu docker -- --rm x :: docker run "${given[@]}" --rm x
check "gc-docker run" starts gc-docker run -it --rm x :: docker run "${given[@]}" -it --rm x
check "run after an option" starts gc-docker -d 0 run x :: docker run "${given[@]}" --env IPU_DEVICE_ID=0 x
check "an image that is called run" starts gc-docker -- run :: docker run "${given[@]}" run
check "only the first run is a word of docker's" starts gc-docker run run run :: docker run "${given[@]}" run run
nasty=('' 'a b' "it's" '"quoted"' $'two\nlines' '$HOME `id`' '*' 'back\slash' $'tab\there' '~' '#' '-d' '--echo' ';' 'ä' $'\xff')
check "arguments of all kinds arrive as they are" starts gc-docker -- x "${nasty[@]}" :: docker run "${given[@]}" x "${nasty[@]}"
check "a device" starts gc-docker --device-id 3 -- x :: docker run "${given[@]}" --env IPU_DEVICE_ID=3 x
check "a group" starts gc-docker -d6 -- x :: docker run "${given[@]}" --env IPU_DEVICE_ID=6 x
check "a device of the environment" starts with IPU_DEVICE_ID=2 gc-docker x :: docker run "${given[@]}" --env IPU_DEVICE_ID=2 x
check "the option counts more" starts with IPU_DEVICE_ID=2 gc-docker -d 1 x :: docker run "${given[@]}" --env IPU_DEVICE_ID=1 x
check "the environment" starts with IPU_ENGINE_OPTIONS='{"a": "b"}' GCDA_OPTIONS=$'{\n}' POPTORCH_LOG_LEVEL=ERR POPLAR_LOG_LEVEL= \
    IPUOF_LOG_LEVEL=WARN IPU_ELASTIC=0 OTHER=1 gc-docker x \
    :: docker run "${given[@]}" --env $'GCDA_OPTIONS={\n}' --env IPUOF_LOG_LEVEL=WARN --env IPU_ELASTIC=0 \
    --env 'IPU_ENGINE_OPTIONS={"a": "b"}' --env POPLAR_LOG_LEVEL= --env POPTORCH_LOG_LEVEL=ERR x
check "paths of the host and secrets stay" starts with IPU_LIBRARY=/x IPU_CC=/x IPU_COMM_PATH=/x IPU_CACHE_DIR=/x POPTORCH_CACHE_DIR=/x \
    IPU_SDK_ENABLED=/x POPLAR_SDK_ENABLED=/x IPU_MONITOR_TOKEN=secret gc-docker x :: docker run "${given[@]}" x
if [ "$(id -u)" = 0 ]; then podman=("${given[@]}"); else podman=(--userns keep-id "${given[@]}"); fi
check "gc-podman" starts gc-podman --device-id 0 -- --rm x :: podman run "${podman[@]}" --env IPU_DEVICE_ID=0 --rm x
check "ipu podman" starts ipu podman run x y :: podman run "${podman[@]}" x y

# ---- configurations ----

mkdir -p "$box/conf" "$box/elsewhere"
cp tests/gc/p1.conf "$box/conf/my first.conf"
echo '{"system": "m2000"}' > "$box/conf/stem.conf"
ln -s "$box/conf/stem.conf" "$box/elsewhere/link.conf"
one() # FILE NAME-THERE
{
    echo --env "IPUOF_CONFIG_PATH=/etc/ipuof.conf.d/$2" --mount "type=bind,source=$1,target=/etc/ipuof.conf.d/$2,readonly"
}
check "one file: it keeps its name, which is the partition's" starts with IPUOF_CONFIG_PATH="$box/conf/stem.conf" gc-docker x \
    :: docker run "${given[@]}" $(one "$box/conf/stem.conf" stem.conf) x
check "one file whose name has a blank" starts with IPUOF_CONFIG_PATH="$box/conf/my first.conf" gc-docker x \
    :: docker run "${given[@]}" --env "IPUOF_CONFIG_PATH=/etc/ipuof.conf.d/my first.conf" \
    --mount "type=bind,source=$box/conf/my first.conf,target=/etc/ipuof.conf.d/my first.conf,readonly" x
cd "$box/conf" || exit 1
check "one file by a path from here" starts with IPUOF_CONFIG_PATH=stem.conf gc-docker x \
    :: docker run "${given[@]}" $(one "$box/conf/stem.conf" stem.conf) x
cd "$top" || exit 1
check "one file by a link keeps the link's name" starts with IPUOF_CONFIG_PATH="$box/elsewhere/link.conf" gc-docker x \
    :: docker run "${given[@]}" $(one "$box/conf/stem.conf" link.conf) x
folder=(--mount "type=bind,source=$box/home/.ipuof.conf.d,target=/etc/ipuof.conf.d,readonly")
ipu partition create p1 --target pod16 && ipu partition create p2 || exit 1
check "the user's folder" starts gc-docker x :: docker run "${given[@]}" "${folder[@]}" x
check "a partition of it" starts with IPU_PARTITION=p2 gc-docker x :: docker run "${given[@]}" "${folder[@]}" --env IPU_PARTITION=p2 x
check "devices are those of the active partition" starts gc-docker -d 30 x :: docker run "${given[@]}" "${folder[@]}" --env IPU_DEVICE_ID=30 x
check "and not of another" fails 1 'partition p2 has no device 30' with IPU_PARTITION=p2 gc-docker -d 30 x
ipu partition remove p1 && ipu partition remove p2 || exit 1
colon=$box/with:colon
check "a folder with a colon" starts with IPU_RUNTIME_DIR="$colon" gc-docker x \
    :: docker run --user "$me" --env IPU_RUNTIME_DIR=/run/openipu --mount "type=bind,source=$colon,target=/run/openipu" x

# ---- --echo ----

not_started() { rm -f "$FAKE_ARGV"; gc-docker --echo -- "$@" > "$box/out" && [ ! -e "$FAKE_ARGV" ] && [ -s "$box/out" ]; }
check "--echo does not start it" not_started x
# What is printed, read by a shell, is what would have been started.
echoed() { with "$@" gc-docker --echo -d 1 -- x "${nasty[@]}" > "$box/line" && cat "$box/line" && sh "$box/line"; }
check "--echo prints what a shell reads as the same words" starts echoed GCDA_OPTIONS="it's" :: docker run "${given[@]}" \
    --env "GCDA_OPTIONS=it's" --env IPU_DEVICE_ID=1 x "${nasty[@]}"
check "--echo of podman" matches '^podman run .* x$' gc-podman --echo x
full() { gc-docker --echo x > /dev/full 2> "$box/err"; [ $? = 1 ] && grep 'cannot write to standard output: No space' "$box/err"; }
check "--echo to a full disk" full
check "--echo needs no docker" matches '^docker run ' with PATH="$box/none" "$box/bin/gc-docker" --echo x

# ---- misuse, and what goes wrong ----

check "no image" fails 2 'expected \[--\] \[ARGUMENT\.\.\.\] IMAGE' gc-docker
check "run and no image" fails 2 'expected an image' gc-docker run
check "a dash before --" fails 2 '^gc-docker: no option -i: put `--` before' gc-docker -it x
check "two of them" fails 2 '^gc-docker: no option --rm: put `--` before' gc-docker --rm x
check "a device that is none" fails 1 'no device 7: its 4 IPUs make devices 0 to 6' gc-docker -d 7 x
check "a device that is no number" fails 2 '"all" is no number' gc-docker -d all x
check "a device below 0" fails 2 '"-1" is no number' gc-docker -d -1 -- x
check "two devices" fails 2 'expected once' gc-docker -d 0 -d 1 x
check "a device without a number" fails 2 'needs an argument: N' gc-docker -d
check "no docker" fails 1 'there is no docker on the PATH: install it \(Debian: docker.io\)' with PATH="$box/none" "$box/bin/gc-docker" x
check "no podman" fails 1 'there is no podman on the PATH' with PATH="$box/none" "$box/bin/gc-podman" x
mkdir -p "$box/folder/docker"
check "a docker that is no program" fails 1 'cannot start docker: Permission denied' with PATH="$box/folder" "$box/bin/gc-docker" x
check "docker's message and exit code are passed on" fails 125 '^docker: no daemon$' with FAKE_EXIT=125 gc-docker x
check "any of its exit codes" fails 42 'no daemon' with FAKE_EXIT=42 gc-docker x
check "a configuration that is not there" fails 1 'none.conf' with IPUOF_CONFIG_PATH="$box/none.conf" gc-docker x
check "a server is asked for" fails 1 'IPUOF_VIPU_API_HOST' with IPUOF_VIPU_API_HOST=10.1.3.101 gc-docker x
check "no such partition" fails 1 'nowhere' with IPU_PARTITION=nowhere gc-docker x
check "a folder that cannot be made" fails 1 "cannot make the folder $box/none/a/b" with IPU_RUNTIME_DIR="$box/none/a/b" gc-docker x
mkdir -m 777 "$box/open"
check "a folder that others may write to" fails 1 'that no other may write to' with IPU_RUNTIME_DIR="$box/open" gc-docker x
check "a folder that cannot be mounted" fails 1 'a,b cannot be given to a container: .*commas' with IPU_RUNTIME_DIR="$box/a,b" gc-docker x
check "gc-docker --help" matches '^Usage: gc-docker \[OPTION\.\.\.\] \[--\]' gc-docker --help
check "gc-podman --help" matches '^  2  the command line is wrong' gc-podman --help

# ---- devices: IPU_DEVICE_ID, and containers as far as they go without any ----

# In place of docker, runs the command here, with the folders from where they are mounted.
cat > "$box/none/docker" << END
#!$python
import os, sys
words, places, image = iter(sys.argv[2:]), {}, None
environment = {k: v for k, v in os.environ.items() if not k.startswith(("IPU", "HOME"))}
environment["HOME"] = "/dev/null/none"
for word in words:
    if word == "--mount":
        mount = dict(part.partition("=")[::2] for part in next(words).split(","))
        places[mount["target"]] = mount["source"]
    elif word == "--env":
        name, _, value = next(words).partition("=")
        environment[name] = value
    elif word == "--user":
        assert next(words) == f"{os.getuid()}:{os.getgid()}"
    elif not word.startswith("-"):
        break
for name, value in environment.items():
    environment[name] = places.get(value, value)
command = list(words)
os.execvpe(command[0], command, environment)
END
chmod 755 "$box/none/docker"
contained=(env "PATH=$box/none:$PATH" gc-docker)
attach() # COMMAND...: it says that it is attached, and stays so
{
    mkfifo "$box/pipe"
    "$@" > "$box/held" 2> "$box/err" < "$box/pipe" &
    holder=$!
    exec 8> "$box/pipe"
    for _ in $(seq 2000); do
        grep -q attached "$box/held" && return
        kill -0 "$holder" 2> /dev/null || break
        sleep 0.05
    done
    cat "$box/err"
    return 1
}
let_go() { exec 8>&-; wait "$holder"; local code=$?; holder=; rm -f "$box/pipe"; return "$code"; }
holds() { gc-info -i -d "$1" | grep -q 'user process id:'; }
free() { ! holds "$1"; }
check "any device is the one that is given" attach "${contained[@]}" --device-id 2 -- --rm openipu "$hold" +1
check "it is held outside, too" holds 2
check "the others are free" free 0
check "who wants it inside is told" fails 1 'none within IPU_DEVICE_ID=2 is free: held are IPU 2 by pid' \
    "${contained[@]}" --device-id 2 -- openipu "$hold" +1
check "who wants it outside is told" fails 1 'device 2 is busy' "$hold" 2
check "more than is given is not there" fails 1 '2 IPUs are wanted, and IPU_DEVICE_ID=0 allows IPUs 0 to 0' \
    "${contained[@]}" -d 0 -- openipu "$hold" +2
check "it ends in order" let_go
check "and then it is free" free 2
check "ipu check: what one IPU cannot do is missing, not broken" matches '^training on 2 IPUs  missing: 2 IPUs are wanted' \
    "${contained[@]}" -d 0 -- openipu ipu check
check "the partition inside has the name it has outside" matches '^Partition: stem \[active\]' \
    with IPUOF_CONFIG_PATH="$box/conf/stem.conf" "${contained[@]}" openipu gc-info -l

# ---- another user ----

if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null && setpriv --reuid 65534 --regid 65534 --clear-groups "$ipu" --version > /dev/null 2>&1; then
    install -d -o 65534 -g 65534 -m 700 "$box/nobody"
    nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups env "HOME=$box/nobody" "IPU_RUNTIME_DIR=$box/nobody/run"
        "FAKE_ARGV=$box/nobody/argv")
    theirs=(--user 65534:65534 --env IPU_RUNTIME_DIR=/run/openipu --mount "type=bind,source=$box/nobody/run,target=/run/openipu")
    as_nobody() { FAKE_ARGV=$box/nobody/argv starts "${nobody[@]}" "$@"; }
    check "docker as another user" as_nobody gc-docker x :: docker run "${theirs[@]}" x
    check "podman as another user keeps the user's number" as_nobody gc-podman x :: podman run --userns keep-id "${theirs[@]}" x
    check "a folder of another's is not given" fails 1 "$box/run: expected a folder of user 65534's" \
        "${nobody[@]}" IPU_RUNTIME_DIR="$box/run" gc-docker x
    check "start --with-root as another user: root inside, IPUs of its own" as_nobody CONTAINER_ID=c WORKSPACE=/x "$utils/into_docker.sh" start --with-root \
        :: docker run --user 0:0 -d --name c --mount type=bind,source=/x,target=/workspace -w /workspace openipu:latest "${stays[@]}"
    unprivileged() { "${nobody[@]}" LOGS="$box/nobody/logs" scripts/container_check.sh | tee "$box/out"; grep -qx '0 passed, 0 failed, 1 skipped' "$box/out"; }
    check "container_check.sh as another user is skipped" unprivileged
    check "add_user.sh as another user" fails 1 'only root may add users' "${nobody[@]}" "$utils/add_user.sh" --uid 5
else
    skip "not root: another user"
fi

# ---- build_docker.sh ----

built=(docker build -f "$containers/Dockerfile" -t)
check "build" starts "$utils/build_docker.sh" :: "${built[@]}" openipu:latest --build-arg PACKAGES= "$top"
cd / || exit 1
check "build from another folder" starts with IMG=a/b:c "$utils/build_docker.sh" :: "${built[@]}" a/b:c --build-arg PACKAGES= "$top"
cd "$top" || exit 1
check "build with more" starts with PACKAGES=vim "$utils/build_docker.sh" --with-torch --with-compiler --with-mpi -- --no-cache --label 'a b' \
    :: "${built[@]}" openipu:latest --build-arg 'PACKAGES=vim python3-torch gcc libc6-dev openmpi-bin' --no-cache --label 'a b' "$top"
check "build with podman" starts with DOCKER=podman "$utils/build_docker.sh" :: podman "${built[@]:1}" openipu:latest --build-arg PACKAGES= "$top"
check "build: unknown option" fails 2 'unexpected "--frob"' "$utils/build_docker.sh" --frob
check "build: packages that are none" fails 2 'PACKAGES: expected names' with PACKAGES='a; rm -rf x' "$utils/build_docker.sh"
check "build: no docker" fails 1 'there is no nodocker on the PATH' with DOCKER=nodocker "$utils/build_docker.sh"
check "build: docker's exit code" fails 17 'no daemon' with FAKE_EXIT=17 "$utils/build_docker.sh"

# ---- into_docker.sh ----

into=$utils/into_docker.sh
container=(-d --name "openipu-$(id -un)" --mount "type=bind,source=$top,target=/workspace" -w /workspace)
if [ -e "$containers/envs.sh" ]; then
    skip "containers/envs.sh says how containers are started here"
else
    check "start" starts "$into" start :: docker run "${given[@]}" "${container[@]}" openipu:latest "${stays[@]}"
    check "start with podman" starts with DOCKER=podman "$into" start :: podman run "${podman[@]}" "${container[@]}" openipu:latest "${stays[@]}"
    check "start with settings" starts with IMG=my/image:1 CONTAINER_ID=c1 WORKSPACE="$box/a b" IPU_DEVICE_ID=1 "$into" start -- --memory 1g \
        :: docker run "${given[@]}" --env IPU_DEVICE_ID=1 -d --name c1 --mount "type=bind,source=$box/a b,target=/workspace" -w /workspace \
        --memory 1g my/image:1 "${stays[@]}"
    check "into" starts "$into" into :: docker exec -i "openipu-$(id -un)" bash
    check "into as root" starts with CONTAINER_ID=c1 "$into" into --with-root :: docker exec -i --user 0:0 c1 bash
    check "into with a command" starts with CONTAINER_ID=c1 "$into" into sh -c 'echo "a  b"' :: docker exec -i c1 sh -c 'echo "a  b"'
    check "stop" starts with CONTAINER_ID=c1 "$into" stop :: docker rm -f c1
    if command -v script > /dev/null; then
        on_terminal() { SHELL=/bin/sh timeout -k 5 30 env --default-signal=CHLD script -qec "CONTAINER_ID=c1 $into into" /dev/null < /dev/null; }
        check "into on a terminal" starts on_terminal :: docker exec -i -t c1 bash
    else
        skip "no script here, for a terminal"
    fi
fi
check "into_docker.sh: nothing to do" fails 2 'expected start, into or stop' "$into"
check "into_docker.sh: unknown action" fails 2 'found "enter"' "$into" enter
check "into_docker.sh: unknown option" fails 2 'no option --frob' "$into" start --frob
check "into_docker.sh: arguments of start" fails 2 'unexpected "x"' "$into" start x
check "into_docker.sh: stop as root" fails 2 'does not go with stop' "$into" stop --with-root
check "into_docker.sh: no docker" fails 1 'there is no nodocker' with DOCKER=nodocker "$into" start
check "into_docker.sh: docker's exit code" fails 125 'no daemon' with FAKE_EXIT=125 "$into" start
check "into_docker.sh: a workspace that cannot be mounted" fails 1 'without commas' with WORKSPACE=/a,b "$into" start

# A copy elsewhere, without a build: settings of its own, and no gc-docker.
cp -r "$containers" "$box/containers"
cp "$containers/envs.sh.template" "$box/containers/envs.sh"
template() { bash -euc ". '$box/containers/envs.sh'"; }
check "the template of envs.sh is a script that changes nothing" template
echo 'export IMG=of-envs CONTAINER_ID="a b"' >> "$box/containers/envs.sh"
check "envs.sh is read" starts "$box/containers/docker_utils/into_docker.sh" start :: docker run "${given[@]}" -d --name 'a b' \
    --mount "type=bind,source=$box,target=/workspace" -w /workspace of-envs "${stays[@]}"
mkdir "$box/few" && cp "$box/bin/docker" "$box/few/docker"
for name in bash sh env dirname basename id; do ln -s "$(command -v $name)" "$box/few/$name"; done
alone=(env "PATH=$box/few" "$box/containers/docker_utils/into_docker.sh" start)
check "without gc-docker, IPUs of its own" starts "${alone[@]}" :: docker run -d --name 'a b' \
    --mount "type=bind,source=$box,target=/workspace" -w /workspace of-envs "${stays[@]}"
told() { "${alone[@]}" 2>&1 | grep 'there is no gc-docker here: the container has IPUs of its own'; }
check "and that is said" told

# ---- add_user.sh, with programs that write down what they are given ----

mkdir "$box/root"
for name in useradd groupadd; do printf '#!/bin/sh\necho "%s $*" >> "$FAKE_ARGV"\n' $name > "$box/root/$name"; done
cat > "$box/root/getent" << 'END'
#!/bin/sh
case "$1 $2" in
    "passwd ann" | "passwd 1000") echo "ann:x:1000:1000::/x:/bin/sh" ;;
    "group 1000") echo "ann:x:1000:" ;;
    *) exit 2 ;;
esac
END
printf '#!/bin/sh\necho 0\n' > "$box/root/id"
chmod 755 "$box/root"/*
add=(env "PATH=$box/root:$PATH" "$utils/add_user.sh")
adds() { local lines=$1; shift; rm -f "$FAKE_ARGV"; "$@" && cat "$FAKE_ARGV" && [ "$(cat "$FAKE_ARGV")" = "$lines" ]; }
check "a user and a group are added" adds $'groupadd --gid 502 ben\nuseradd --create-home --uid 501 --gid 502 --shell /bin/bash ben' \
    "${add[@]}" --name ben --uid 501 --gid 502
check "a group that is there is used" adds 'useradd --create-home --uid 501 --gid 1000 --shell /bin/bash ipu-dev' "${add[@]}" --uid 501 --gid 1000
nothing() { rm -f "$FAKE_ARGV"; "$@" && [ ! -e "$FAKE_ARGV" ]; }
check "a user that is there is left alone" nothing "${add[@]}" --name ann --uid 1000 --gid 1000
check "a name with other numbers" fails 1 'user ann is there, with numbers 1000:1000, not 5:5' "${add[@]}" --name ann --uid 5 --gid 5
check "a number of another's" fails 1 "number 1000 is user ann's" "${add[@]}" --name ben --uid 1000
check "root is not added" fails 1 'user 0 is root' "${add[@]}" --uid 0
check "a name that is none" fails 2 'found "a b"' "${add[@]}" --name 'a b'
check "a number that is none" fails 2 'found "x"' "${add[@]}" --uid x
check "an option without an argument" fails 2 'uid needs an argument' "${add[@]}" --uid

# ---- all scripts ----

for script in "$containers/verify.sh" "$utils"/*.sh; do
    name=$(basename "$script")
    check "$name --help" matches "^Usage: $name" "$script" --help
    check "$name documents its exit codes" matches '^  2  the command line is wrong' "$script" --help
    check "$name: a word that is none" fails 2 "^Try: $name --help" "$script" --frob
done

# ---- verify.sh ----

# A sanitized library cannot be loaded by an interpreter that is not.
if ldd "$build/src/libipu.so" | grep -qE 'lib[at]san'; then
    seen=(env "PYTHONPATH=$box/empty" "$containers/verify.sh")
    skip "Python's half of verify.sh: the library is sanitized"
else
    seen=(env "PYTHONPATH=$top/python" "IPU_LIBRARY=$build/src/libipu.so" "$containers/verify.sh")
fi
check "verify.sh of this build" matches '^OpenIPU is installed successfully' "${seen[@]}"
if [ "${seen[2]}" != "$containers/verify.sh" ]; then check "with Python" grep -q '^ok .* Python runs a network' "$box/out"; fi
verified() { local pattern=$1; shift; "$@" > "$box/out" 2>&1; [ $? = 1 ] && cat "$box/out" && grep -qE "$pattern" "$box/out"; }
check "verify.sh without an installation" verified 'there is no gc-monitor on the PATH' env "PATH=$box/few" bash "$containers/verify.sh"
check "verify.sh with a configuration that is wrong" verified '^not ok 1 - gc-info lists devices' env IPU_PARTITION=nowhere "${seen[@]}"
mkdir "$box/broken" && printf '#!/bin/sh\necho "engine  broken"\nexit 1\n' > "$box/broken/ipu" && chmod 755 "$box/broken/ipu"
check "verify.sh with an engine that is broken" verified '^not ok 4 - programs run' env "PATH=$box/broken:$PATH" "${seen[@]}"

# ---- the Dockerfile ----

check "container_check.sh: an option that is none" fails 2 'no option "--frob"' scripts/container_check.sh --frob
check "its instructions are what container_check.sh runs, and it keeps to the rules" "$python" tests/container/dockerfile.py "$top"
if command -v apt-cache > /dev/null && [ -n "$(apt-cache madison libc6 2> /dev/null)" ]; then
    check "every package it names exists" "$python" tests/container/dockerfile.py "$top" --packages
else
    skip "apt has no lists here"
fi
if command -v dpkg-query > /dev/null && command -v readelf > /dev/null && ! ldd "$build/src/libipu.so" | grep -qE 'lib[at]san'; then
    check "it has the packages of all libraries that are linked" "$python" tests/container/dockerfile.py "$top" --libraries "$build/src/libipu.so" "$ipu"
else
    skip "no dpkg-query or readelf here, or the build is sanitized"
fi

check_end
