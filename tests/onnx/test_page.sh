# docs/operators.md is what the operator table says.
exec python3 tools/onnx_operators --check
