# A thin front for the newcomer; the build itself is CMake (see CMakePresets.json).
.PHONY: help build test demo check format clean

help:
	@echo "make build    build the library and the command line: build/release/lawson"
	@echo "make test     everything that CI runs: set up, four builds (gcc, two with sanitizers, clang), all tests"
	@echo "make demo     fuse and run a model"
	@echo "make check    layers and formatting of the sources"
	@echo "make format   format the sources"
	@echo "make clean    remove the builds (build/venv stays)"

build:
	@tools/setup
	cmake --preset release
	cmake --build --preset release

test: build
	cmake --preset asan
	cmake --build --preset asan
	cmake --preset tsan
	cmake --build --preset tsan
	cmake --preset clang
	cmake --build --preset clang
	tools/run_tests build/release build/asan build/tsan

demo: build
	tools/demo

check:
	tools/check_layers
	tools/check_format

format:
	tools/check_format --fix

clean:
	rm -rf build/release build/debug build/asan build/tsan build/clang build/fuzz
