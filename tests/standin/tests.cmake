# Look-alikes of GPU libraries, for tests without a GPU. Generated CUDA C is compiled for the host when
# the look-alike of the driver loads it.
add_library(cuda_standin MODULE ${tests_dir}/standin/cuda_standin.c
                                ${tests_dir}/standin/cuda_graphs.c ${tests_dir}/standin/memory.c
                                ${tests_dir}/standin/products.c ${tests_dir}/standin/simt.c
                                ${tests_dir}/standin/translate.c
                                ${tests_dir}/standin/work.c)
add_library(nvrtc_standin MODULE ${tests_dir}/standin/nvrtc_standin.c)
add_library(cupti_standin MODULE ${tests_dir}/standin/cupti_standin.c)
foreach(target cuda_standin nvrtc_standin cupti_standin)
  target_compile_options(${target} PRIVATE ${LW_WARNINGS})
  target_compile_definitions(${target} PRIVATE LW_STANDIN_TESTS="${tests_dir}")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${tests_dir}
                                               ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE lw_base dl m)
endforeach()
# Every program of this folder, and those others that open the look-alikes.
file(GLOB standin_tests RELATIVE ${tests_dir}/standin ${tests_dir}/standin/test_*.c)
list(TRANSFORM standin_tests REPLACE "^test_(.*)\\.c$" "test_standin_\\1")
foreach(test ${standin_tests} test_runtime_cuda test_runtime_cuda_lanes test_runtime_trace test_compiler_products)
  if(TARGET ${test})
    add_dependencies(${test} cuda_standin nvrtc_standin cupti_standin)
  endif()
endforeach()
