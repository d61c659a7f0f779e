# Look-alikes of GPU libraries, for tests without a GPU.
add_library(cuda_standin MODULE ${tests_dir}/standin/cuda_standin.c)
target_compile_options(cuda_standin PRIVATE ${LW_WARNINGS})
target_include_directories(cuda_standin PRIVATE ${PROJECT_SOURCE_DIR}/src ${tests_dir}
                                                ${PROJECT_SOURCE_DIR}/include)
if(TARGET test_runtime_cuda)
  add_dependencies(test_runtime_cuda cuda_standin)
endif()
