#!/bin/sh
# test_run_tests.sh: the closing line of tools/run_tests counts what ran, failed and was skipped.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# suite NAME: a build folder $work/NAME with one test for each "name command" line of standard input.
suite() {
  mkdir -p "$work/$1"
  while read -r name command; do
    printf '%s\n' "$command" >"$work/$1/$name.sh"
    echo "add_test($name sh $work/$1/$name.sh)"
    echo "set_tests_properties($name PROPERTIES SKIP_RETURN_CODE 77)"
  done >"$work/$1/CTestTestfile.cmake"
}

# expect NAME STATUS LINE FOLDER...: run_tests over the folders ends with LINE and exits with STATUS.
expect() {
  name=$1 status=$2 line=$3
  shift 3
  code=0
  "$LW_SOURCE_DIR/tools/run_tests" "$@" >"$work/out" 2>&1 || code=$?
  last=$(grep -v '^Errors while running CTest' "$work/out" | tail -n 1)
  if [ "$code" -eq "$status" ] && [ "$last" = "$line" ]; then
    echo "ok $name"
  else
    echo "not ok $name: status $code, last line: $last"
    failures=$((failures + 1))
  fi
}

suite plain <<'END'
one true
two exit 0
END
suite bad <<'END'
one true
two exit 3
three kill -SEGV $$
END
suite skips <<'END'
one exit 77
two echo "ok a"; echo "ok b # SKIP no device"; echo "okay is a word, not a result"
END
suite scripts <<'END'
one echo "ok a"; echo "ok b"; echo "not ok c"; exit 1
two echo "ok a"; exit 1
END
suite units <<'END'
one printf '[==========] Running 3 test(s).\n[       OK ] a\n[       OK ] b\n[  SKIPPED ] c\n[==========] 3 test(s) run.\n[  PASSED  ] 2 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] c\n'
two printf '[==========] Running 2 test(s).\n[       OK ] a\n[  FAILED  ] b\n[==========] 2 test(s) run.\n[  PASSED  ] 1 test(s).\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] b\n'; exit 1
END
suite none </dev/null

expect "plain tests" 0 "2 passed, 0 failed, 0 skipped" "$work/plain"
expect "failures and crashes" 1 "1 passed, 2 failed, 0 skipped" "$work/bad"
expect "skips" 0 "1 passed, 0 failed, 2 skipped" "$work/skips"
expect "lines of scripts" 1 "3 passed, 2 failed, 0 skipped" "$work/scripts"
expect "functions of cmocka programs" 1 "3 passed, 1 failed, 1 skipped" "$work/units"
expect "no test at all" 1 "0 passed, 1 failed, 0 skipped" "$work/none"
expect "two folders" 1 "5 passed, 2 failed, 0 skipped" "$work/plain" "$work/scripts"
[ "$failures" -eq 0 ]
