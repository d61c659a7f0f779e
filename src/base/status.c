/* status.c: names of status codes and element types, sizes of element types. */
#include "base/base.h"

const char *lw_status_name(lw_status status) {
  switch (status) {
    case LW_OK: return "ok";
    case LW_STATUS_CHECK_FAILED: return "check failed";
    case LW_STATUS_USAGE: return "usage";
    case LW_STATUS_MODEL_INVALID: return "model invalid";
    case LW_STATUS_UNSUPPORTED: return "unsupported";
    case LW_STATUS_DEVICE_FAILED: return "device failed";
    case LW_STATUS_OUT_OF_MEMORY: return "out of memory";
    case LW_STATUS_NOT_FOUND: return "not found";
    case LW_STATUS_IO: return "input or output failed";
    case LW_STATUS_INTERNAL: return "internal error";
    case LW_STATUS_DEVICE_LOST: return "device lost";
  }
  return "unknown status";
}

typedef struct dtype_row {
  const char *name;
  size_t size_bytes;
} dtype_row;

static const dtype_row dtype_rows[LW_DTYPE_COUNT] = {
    [LW_DTYPE_NONE] = {"none", 0},     [LW_DTYPE_BOOL] = {"bool", 1},
    [LW_DTYPE_I8] = {"i8", 1},         [LW_DTYPE_I16] = {"i16", 2},
    [LW_DTYPE_I32] = {"i32", 4},       [LW_DTYPE_I64] = {"i64", 8},
    [LW_DTYPE_U8] = {"u8", 1},         [LW_DTYPE_U16] = {"u16", 2},
    [LW_DTYPE_U32] = {"u32", 4},       [LW_DTYPE_U64] = {"u64", 8},
    [LW_DTYPE_F16] = {"f16", 2},       [LW_DTYPE_BF16] = {"bf16", 2},
    [LW_DTYPE_F32] = {"f32", 4},       [LW_DTYPE_F64] = {"f64", 8},
    [LW_DTYPE_F8E4M3] = {"f8e4m3", 1}, [LW_DTYPE_F8E5M2] = {"f8e5m2", 1},
};

const char *lw_dtype_name(lw_dtype dtype) {
  return (unsigned)dtype < LW_DTYPE_COUNT ? dtype_rows[dtype].name : "unknown type";
}

size_t lw_dtype_size_bytes(lw_dtype dtype) {
  return (unsigned)dtype < LW_DTYPE_COUNT ? dtype_rows[dtype].size_bytes : 0;
}
