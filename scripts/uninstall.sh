#!/usr/bin/env bash
# Removes what install.sh noted in PREFIX/share/ipu/manifest: the files, and the folders it made
# unless something else lives in them now.
. "$(dirname "$0")/lib.sh"
case $DESTDIR in "" | /*) ;; *) DESTDIR=$PWD/$DESTDIR ;; esac
PREFIX=${PREFIX%/}
manifest=$DESTDIR$PREFIX/share/ipu/manifest
[ -f "$manifest" ] || die "nothing to remove: there is no $manifest (give the PREFIX and DESTDIR of make install)"
[ -w "$(dirname "$manifest")" ] || die "cannot write to $(dirname "$manifest"): run with sudo"

notes=$(cat "$manifest")
while read -r kind path; do
    if [ "$kind" = file ]; then rm -f -- "$DESTDIR$path"; fi
done <<< "$notes"
while read -r kind path; do
    if [ "$kind" = folder ]; then rmdir --ignore-fail-on-non-empty -- "$DESTDIR$path"; fi
done <<< "$(tac <<< "$notes")"
say "removed $(grep -c ^file <<< "$notes") files from $DESTDIR$PREFIX"
