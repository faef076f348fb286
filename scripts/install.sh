#!/usr/bin/env bash
# Installs to $DESTDIR$PREFIX and notes every file and folder it makes there in
# PREFIX/share/ipu/manifest, from which uninstall.sh works. PREFIX does not change the build.
# IPU_BUILT: take the build as it is.
. "$(dirname "$0")/lib.sh"
case $PREFIX in /*) ;; *) die "PREFIX must be an absolute path, found \"$PREFIX\"" ;; esac
case $DESTDIR in "" | /*) ;; *) DESTDIR=$PWD/$DESTDIR ;; esac
PREFIX=${PREFIX%/}

above=$DESTDIR$PREFIX
while [ ! -e "$above" ]; do above=$(dirname "$above"); done
[ -w "$above" ] || die "cannot write to $above: run with sudo, or choose a folder with PREFIX=\$HOME/.local"

[ -n "${IPU_BUILT:-}" ] || scripts/build.sh
stage=$(realpath "$BUILD")/stage
rm -rf "$stage"
meson install -C "$BUILD" --no-rebuild --quiet --destdir "$stage" > /dev/null
tree=$stage/usr/local
mkdir -p "$tree/share/ipu"
sed "s:@PREFIX@:$PREFIX:" scripts/enable.sh.in > "$tree/share/ipu/enable.sh"
# An SDK's folder has it at the top; a system's is no place for it.
case $PREFIX in /usr | /usr/local | "") ;; *) cp "$tree/share/ipu/enable.sh" "$tree/enable.sh" ;; esac

manifest=$PREFIX/share/ipu/manifest
if [ -f "$DESTDIR$manifest" ]; then scripts/uninstall.sh > /dev/null; fi

notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
make_folder() # PATH under DESTDIR, and those above it
{
    [ -d "$DESTDIR$1" ] && return
    make_folder "$(dirname "$1")"
    mkdir "$DESTDIR$1"
    say "folder $1" >> "$notes"
}

[ -z "$DESTDIR" ] || mkdir -p "$DESTDIR"
while read -r path; do
    to=$PREFIX/$path
    make_folder "$(dirname "$to")"
    cp -P --remove-destination "$tree/$path" "$DESTDIR$to"
    say "file $to" >> "$notes"
done < <(cd "$tree" && find . \( -type f -o -type l \) -printf '%P\n' | sort)
say "file $manifest" >> "$notes"
install -m 644 "$notes" "$DESTDIR$manifest"

if [ -z "$DESTDIR" ] && [ "$(id -u)" = 0 ] && command -v ldconfig > /dev/null; then ldconfig; fi
say "installed $(grep -c ^file "$notes") files to $DESTDIR$PREFIX"
