# onnx_oracle: a model through import and interpreter; used by tools/onnx_suite.
add_executable(onnx_oracle ${PROJECT_SOURCE_DIR}/tools/onnx_oracle.c)
target_compile_options(onnx_oracle PRIVATE ${LW_WARNINGS})
lw_module_targets(onnx_oracle_modules base graph compiler_onnx)
target_link_libraries(onnx_oracle PRIVATE ${onnx_oracle_modules})
