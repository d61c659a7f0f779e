#!/bin/sh
# The shared models and cases on the CUDA path, with look-alikes of the driver and NVRTC in place of a GPU.
set -u
shared=$LW_SOURCE_DIR/../shared
if [ ! -d "$shared/models" ]; then
  echo "skipped: there is no $shared/models"
  exit 77
fi
LAWSON_CUDA=$LW_BUILD_DIR/libcuda_standin.so
LAWSON_NVRTC=$LW_BUILD_DIR/libnvrtc_standin.so
export LAWSON_CUDA LAWSON_NVRTC
exec "$LW_CLI" check --device cuda --cache off --timeout 200 --time-factor 0 "$shared"/models/*
