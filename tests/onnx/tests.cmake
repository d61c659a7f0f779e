# The conformance suite through the whole compiler (tools/onnx_suite). Under a sanitizer, where everything
# takes long, some of the cases, with kernels that are built with it, too.
lw_program(onnx_suite ${CMAKE_CURRENT_LIST_DIR}/suite.c ${LW_MODULES})
set(onnx_suite_options "")
if(LW_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(onnx_suite_options --every 6
      "--flags=-O1 -fsanitize=address,undefined -fno-sanitize-recover=all")
elseif(LW_SANITIZE)
  set(onnx_suite_options --every 12)
endif()
add_test(NAME test_onnx_suite
         COMMAND ${LW_PYTHON} tools/onnx_suite --build ${PROJECT_BINARY_DIR} ${onnx_suite_options})
lw_set_test_properties(test_onnx_suite onnx)
set_tests_properties(test_onnx_suite PROPERTIES COST 90)
