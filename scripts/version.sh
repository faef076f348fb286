#!/bin/sh
# The version, from the one place it is written: include/ipu/version.h.
sed -n 's/#define IPU_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$(dirname "$0")/../include/ipu/version.h" | paste -sd.
