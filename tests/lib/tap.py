"""unittest, reported as the lines "ok name", "not ok name" and "ok name # SKIP why" that
tools/run_tests counts; details of failures follow on lines that begin with "#"."""
import os
import sys
import unittest


def build_is_sanitized():
    """Whether $LW_BUILD_DIR was configured with a sanitizer: slower, and not to be loaded into
    programs that lack it."""
    cache = os.path.join(os.environ.get("LW_BUILD_DIR", ""), "CMakeCache.txt")
    try:
        with open(cache, encoding="utf-8") as file:
            return any(line.startswith("LW_SANITIZE:") and line.strip()[-1] != "=" for line in file)
    except OSError:
        return False


class _Result(unittest.TestResult):
    def _line(self, word, test, after=""):
        name = test.id().removeprefix("__main__.")
        print(f"{word} {name}{after}", flush=True)

    def _failure(self, test, error):
        self._line("not ok", test)
        for line in self._exc_info_to_string(error, test).splitlines():
            print("#  " + line, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line("ok", test)

    def addError(self, test, err):
        super().addError(test, err)
        self._failure(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failure(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failure(subtest, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line("ok", test, f" # SKIP {reason}")


def main(module="__main__"):
    """Runs the tests of |module|; arguments choose by name. Exit status 77 when all were skipped."""
    names = [f"{module}.{name}" for name in sys.argv[1:]]
    loader = unittest.defaultTestLoader
    suite = (loader.loadTestsFromNames(names) if names
             else loader.loadTestsFromModule(sys.modules[module]))
    result = _Result()
    suite.run(result)
    if result.testsRun == 0 and result.skipped:  # a whole class, before its tests
        sys.exit(77)
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    sys.exit(77 if len(result.skipped) == result.testsRun else 0)
