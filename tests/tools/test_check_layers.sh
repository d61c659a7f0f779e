#!/bin/sh
# test_check_layers.sh: the tree itself is clean, and each planted violation is found where it is.
set -eu
check=$LW_SOURCE_DIR/tools/check_layers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

if "$check"; then
  echo "ok the tree"
else
  echo "not ok the tree"
  failures=$((failures + 1))
fi

# A small tree without violations.
fresh() {
  rm -rf "$work/tree"
  mkdir -p "$work"/tree/src/base "$work"/tree/src/graph "$work"/tree/src/runtime \
    "$work"/tree/src/compiler/kernel "$work"/tree/src/compiler/emit/c "$work"/tree/cli
  cd "$work/tree"
  printf '#include <stdio.h>\n#include <lawson/types.h>\n' >src/base/base.h
  printf '#include "base/base.h"\n#include "graph/graph.h"\n' >src/graph/graph.h
  printf '#include "compiler/kernel/kernel.h"\n' >src/compiler/emit/c/print.c
  printf '#include "graph/graph.h"\n/* exit(1) */ const char *s = "abort()";\n' \
    >src/compiler/kernel/kernel.h
  printf 'int lw__snprintf(void); int x = my_exit(snprintf(0, 0, "")); y.exit(1);\n' \
    >src/runtime/run.c
  printf '#include <lawson/lawson.h>\n#include "cli.h"\n' >cli/main.c
  printf 'int printf(const char *, ...);\n' >cli/cli.h
}

# expect NAME FILE TEXT LINE: with TEXT (a printf format) in FILE, the check names FILE:LINE.
expect() {
  fresh
  # shellcheck disable=SC2059
  printf "$3" >"$2"
  if "$check" "$work/tree" >"$work/out"; then
    verdict="no violation found"
  elif grep -q "^$2:$4: " "$work/out" && grep -q ' 1 violations' "$work/out"; then
    echo "ok $1"
    return
  else
    verdict=$(cat "$work/out")
  fi
  echo "not ok $1: $verdict"
  failures=$((failures + 1))
}

fresh
if "$check" "$work/tree" >"$work/out"; then
  echo "ok a clean tree"
else
  echo "not ok a clean tree: $(cat "$work/out")"
  failures=$((failures + 1))
fi

expect "graph above base" src/base/up.c '\n#include "graph/graph.h"\n' 2
expect "the runtime and the compiler" src/runtime/k.c '#include "compiler/kernel/kernel.h"\n' 1
expect "a kernel and its printer" src/compiler/kernel/up.c '#include "compiler/emit/c/print.c"\n' 1
expect "a header of the folder by its short name" src/graph/short.c '#include "graph.h"\n' 1
expect "the public interface inside" src/graph/api.c '#include <lawson/lawson.h>\n' 1
expect "internals in the command line" cli/inside.c '#include "base/base.h"\n' 1
expect "a folder without a row" src/stray.c 'int x;\n' 1
expect "printing" src/base/print.c 'void f(void) { printf("x"); }\n' 1
expect "a stream" src/base/stream.c 'void f(void) { fputs("x", stderr); }\n' 1
expect "exit behind a comment" src/base/exit.c '/* a\n b */\nvoid f(void) { exit (1); }\n' 3
expect "the environment" src/graph/env.c 'char *f(void) { return getenv("HOME"); }\n' 1
expect "a tab" src/base/tab.c 'int x;\n\tint y;\n' 2
expect "a long line" src/base/long.c '%101s\n' 1
fresh
yes 'int x;' | head -n 1001 >src/base/many.c || true
if "$check" "$work/tree" >"$work/out" || ! grep -q '^src/base/many.c:1001: ' "$work/out"; then
  echo "not ok a long file"
  failures=$((failures + 1))
else
  echo "ok a long file"
fi
[ "$failures" -eq 0 ]
