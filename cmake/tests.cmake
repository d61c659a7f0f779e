# Tests.
#   tests/unit/<module>/**/test_<x>.c   a cmocka program test_<module>_<x> that links the modules at and
#                                       below its own; a compiler module may also stand as
#                                       tests/unit/compiler/<module>/. Label: unit.
#   tests/<folder>/test_<x>.c           a program test_<folder>_<x> that links every module.
#   tests/<folder>/test_<x>.{sh,py}     a script, run in the source folder. Label: the folder's name.
#   tests/fuzz/fuzz_<x>.c               a fuzz target (LLVMFuzzerTestOneInput) that links every module.
#                                       With LW_FUZZ (clang) it is a libFuzzer program; else the test
#                                       fuzz_<x> feeds it tests/data/fuzz/<x>/* and small changes of it.
#   With the thread sanitizer only what runs in several threads is built (lw_thread_tests).
#   tests/<folder>/tests.cmake          included as it is, for what these rules cannot say.
#   tests/lib/*.c                       helpers (lw_testlib, #include "lib/<x>.h") for all programs.
# Exit status 77 means skipped. Scripts see LW_SOURCE_DIR, LW_BUILD_DIR and LW_CLI.
pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
# tools/setup's Python first: it has the packages of tests/requirements.txt.
find_program(LW_PYTHON python3 HINTS ${PROJECT_SOURCE_DIR}/build/venv/bin REQUIRED)
set(tests_dir ${PROJECT_SOURCE_DIR}/tests)

file(GLOB testlib_sources CONFIGURE_DEPENDS ${tests_dir}/lib/*.c)
if(testlib_sources)
  add_library(lw_testlib STATIC ${testlib_sources})
  target_compile_options(lw_testlib PRIVATE ${LW_WARNINGS})
  target_compile_definitions(lw_testlib PRIVATE LW_BUILD_DIR="${PROJECT_BINARY_DIR}")
  target_include_directories(lw_testlib PRIVATE ${PROJECT_SOURCE_DIR}/src ${tests_dir}
                                                ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(lw_testlib PUBLIC PkgConfig::cmocka)
endif()

# Which modules the tests of a module link.
set(pipeline onnx pass kernel fuse lower emit sched build) # linked in this order
set(below_compiler base device graph plan)
set(lw_test_base base)
set(lw_test_device base device)
set(lw_test_graph base graph)
set(lw_test_plan base plan)
set(lw_test_runtime base device plan runtime)
set(lw_test_api ${LW_MODULES})
set(so_far ${below_compiler})
foreach(module IN LISTS pipeline)
  list(APPEND so_far compiler_${module})
  set(lw_test_${module} ${so_far})
endforeach()
foreach(module kernel emit) # these stand on the kernel IR alone
  list(REMOVE_ITEM lw_test_${module} compiler_onnx compiler_pass compiler_fuse)
endforeach()

function(lw_set_test_properties test label)
  set_tests_properties(${test} PROPERTIES
    LABELS ${label} SKIP_RETURN_CODE 77 TIMEOUT 600
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    ENVIRONMENT "ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1;\
UBSAN_OPTIONS=print_stacktrace=1;LW_SOURCE_DIR=${PROJECT_SOURCE_DIR};\
LW_BUILD_DIR=${PROJECT_BINARY_DIR};LW_CLI=${PROJECT_BINARY_DIR}/lawson")
  if(label MATCHES "^(random|cli|standin|compiler)$") # long ones first, so that no core waits at the end
    set_tests_properties(${test} PROPERTIES COST 100)
  endif()
endfunction()

# lw_program(target source module...): a program of the tests that links these modules.
function(lw_program target source)
  add_executable(${target} ${source})
  target_compile_options(${target} PRIVATE ${LW_WARNINGS})
  target_compile_definitions(${target} PRIVATE LW_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                               LW_BUILD_DIR="${PROJECT_BINARY_DIR}")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${tests_dir}
                                               ${PROJECT_SOURCE_DIR}/include)
  lw_module_targets(modules ${ARGN})
  if(TARGET lw_testlib)
    list(PREPEND modules lw_testlib)
  endif()
  target_link_libraries(${target} PRIVATE ${modules} PkgConfig::cmocka PkgConfig::jansson
                                          Threads::Threads dl m)
endfunction()

# The thread sanitizer's build has these tests alone: what runs in several threads.
set(lw_thread_tests test_runtime_pool test_runtime_cpu test_runtime_cuda test_api_api test_api_plans
                    test_standin_threads)

function(lw_test_program target source label)
  if(LW_SANITIZE STREQUAL "thread" AND NOT target IN_LIST lw_thread_tests)
    return()
  endif()
  lw_program(${target} ${source} ${ARGN})
  add_test(NAME ${target} COMMAND ${target})
  lw_set_test_properties(${target} ${label})
endfunction()

file(GLOB_RECURSE unit_sources CONFIGURE_DEPENDS ${tests_dir}/unit/test_*.c)
foreach(source IN LISTS unit_sources)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${tests_dir}/unit OUTPUT_VARIABLE path)
  string(REGEX REPLACE "^compiler[/_]" "" path ${path})
  string(REGEX REPLACE "/.*" "" module ${path})
  if(NOT DEFINED lw_test_${module})
    message(FATAL_ERROR "tests/unit/${path}: there is no module '${module}'")
  endif()
  string(REGEX REPLACE "test_([^/]*)\\.c$" "\\1" target ${path})
  string(REPLACE "/" "_" target "test_${target}")
  lw_test_program(${target} ${source} unit ${lw_test_${module}})
endforeach()

file(GLOB suite_files CONFIGURE_DEPENDS ${tests_dir}/*/test_*.c ${tests_dir}/*/test_*.sh
     ${tests_dir}/*/test_*.py)
foreach(source IN LISTS suite_files)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET folder FILENAME folder)
  cmake_path(GET source STEM name)
  cmake_path(GET source EXTENSION extension)
  string(REGEX REPLACE "^test_" "test_${folder}_" test ${name})
  if(folder STREQUAL "unit" OR folder STREQUAL "lib")
    continue()
  elseif(folder STREQUAL "tools" AND LW_SANITIZE)
    continue() # these run nothing that was built
  elseif(LW_SANITIZE STREQUAL "thread" AND NOT test IN_LIST lw_thread_tests)
    continue()
  elseif(extension STREQUAL ".c")
    lw_test_program(${test} ${source} ${folder} ${LW_MODULES})
  elseif(extension STREQUAL ".py")
    add_test(NAME ${test} COMMAND ${LW_PYTHON} ${source})
    lw_set_test_properties(${test} ${folder})
  else()
    add_test(NAME ${test} COMMAND sh ${source})
    lw_set_test_properties(${test} ${folder})
  endif()
endforeach()

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${tests_dir}/fuzz/fuzz_*.c)
if(LW_SANITIZE STREQUAL "thread")
  set(fuzz_sources "")
endif()
foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM target)
  string(REGEX REPLACE "^fuzz_" "" name ${target})
  set(corpus ${tests_dir}/data/fuzz/${name})
  lw_program(${target} ${source} ${LW_MODULES})
  if(LW_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${target} PRIVATE ${tests_dir}/fuzz/replay.c)
    set(rounds "")
    if(name STREQUAL "plan") # small and quick: many rounds in the same time
      set(rounds --rounds 20000)
    endif()
    if(EXISTS ${corpus})
      add_test(NAME ${target} COMMAND ${target} ${rounds} ${corpus})
    else()
      add_test(NAME ${target} COMMAND ${target})
    endif()
    lw_set_test_properties(${target} fuzz)
  endif()
endforeach()

file(GLOB suite_lists CONFIGURE_DEPENDS ${tests_dir}/*/tests.cmake)
if(LW_SANITIZE STREQUAL "thread")
  set(suite_lists ${tests_dir}/standin/tests.cmake)
endif()
foreach(list_file IN LISTS suite_lists)
  include(${list_file})
endforeach()
