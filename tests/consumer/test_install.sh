#!/bin/sh
# Installs the build under a folder of its own and uses it as a stranger would: find_package (shared
# and static), pkg-config, the installed command line; also after the folder was moved.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${LW_BUILD_DIR:?the folder of the build}
if ! grep -q '^LW_SANITIZE:[A-Z]*=$' "$build/CMakeCache.txt"; then
  echo "ok install # SKIP a sanitizer's library wants programs with the sanitizer"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() { # NAME COMMAND...: one line of result; the first failure ends the script
  name=$1
  shift
  if "$@" > "$work/log" 2>&1; then
    echo "ok $name"
  else
    echo "not ok $name"
    sed 's/^/#  /' "$work/log"
    exit 1
  fi
}

use_cmake() { # FOLDER OF THE INSTALLATION
  rm -rf "$work/cmake"
  cmake -S "$here/project" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$1"
  cmake --build "$work/cmake"
  "$work/cmake/consumer_lawson"
  "$work/cmake/consumer_lawson_static"
}

use_pkg_config() { # FOLDER OF THE INSTALLATION
  pc=$(dirname "$(find "$1" -name lawson.pc)")
  rm -f "$work/consumer"
  PKG_CONFIG_PATH="$pc" make -C "$here" OUT="$work" "$work/consumer"
  LD_LIBRARY_PATH="$(dirname "$pc")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$work/consumer"
}

step install cmake --install "$build" --prefix "$work/first"
step find_package use_cmake "$work/first"
step pkg_config use_pkg_config "$work/first"
step command_line "$work/first/bin/lawson" --version
mv "$work/first" "$work/second"
step find_package_after_a_move use_cmake "$work/second"
step pkg_config_after_a_move use_pkg_config "$work/second"
step command_line_after_a_move "$work/second/bin/lawson" --version
