/* lawson/types.h: the plain types that every part of lawson shares: status codes, element types,
 * diagnostics. No functions with state, no dependency but libc. */
#ifndef LAWSON_TYPES_H
#define LAWSON_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LW_MUST_CHECK __attribute__((warn_unused_result))
#define LW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define LW_API __attribute__((visibility("default")))
#else
#define LW_MUST_CHECK
#define LW_PRINTF(fmt, args)
#define LW_API
#endif

/* What a call came to. The numbers 0 to 6 are also the exit codes of the command line. */
typedef enum lw_status {
  LW_OK = 0,
  LW_STATUS_CHECK_FAILED = 1,  /* results differ from what was expected */
  LW_STATUS_USAGE = 2,         /* the caller's arguments are wrong: shape, type, name, option */
  LW_STATUS_MODEL_INVALID = 3, /* the model breaks the ONNX or protobuf rules */
  LW_STATUS_UNSUPPORTED = 4,   /* valid, but lawson cannot do it (yet) */
  LW_STATUS_DEVICE_FAILED = 5, /* no such device, driver, compiler, or one of them failed */
  LW_STATUS_OUT_OF_MEMORY = 6,
  LW_STATUS_NOT_FOUND = 7,    /* a file or an entry is not there */
  LW_STATUS_IO = 8,           /* a file cannot be read or written */
  LW_STATUS_INTERNAL = 9,     /* a promise of lawson's own code was broken: please report it */
  LW_STATUS_DEVICE_LOST = 10, /* an error broke the device's state: nothing runs on it any more
                                 until the process ends */
} lw_status;

/* Element types. The numbers are lawson's own; the ONNX reader translates. */
typedef enum lw_dtype {
  LW_DTYPE_NONE = 0,
  LW_DTYPE_BOOL, /* one byte, 0 or 1 */
  LW_DTYPE_I8,
  LW_DTYPE_I16,
  LW_DTYPE_I32,
  LW_DTYPE_I64,
  LW_DTYPE_U8,
  LW_DTYPE_U16,
  LW_DTYPE_U32,
  LW_DTYPE_U64,
  LW_DTYPE_F16,
  LW_DTYPE_BF16,
  LW_DTYPE_F32,
  LW_DTYPE_F64,
  LW_DTYPE_F8E4M3, /* OCP E4M3 (finite, NaN 0x7f) */
  LW_DTYPE_F8E5M2,
  LW_DTYPE_COUNT
} lw_dtype;

/* Most dimensions a value may have. Convolutions over three axes seen as contractions need 8. */
#define LW_MAX_RANK 12

typedef enum lw_severity { LW_SEVERITY_NOTE, LW_SEVERITY_WARNING, LW_SEVERITY_ERROR } lw_severity;

/* One message. |where| names the place in the user's terms ("model.onnx: node 'n3_Conv' (Conv): W")
 * and may be "". Both strings belong to the list that holds the message. */
typedef struct lw_message {
  lw_severity severity;
  lw_status status;
  const char *where;
  const char *text;
} lw_message;

LW_API const char *lw_status_name(lw_status status);  /* "ok", "usage", "model invalid", ... */
LW_API const char *lw_dtype_name(lw_dtype dtype);     /* "f32", "i64", ... */
LW_API size_t lw_dtype_size_bytes(lw_dtype dtype);    /* 0 for LW_DTYPE_NONE */

#ifdef __cplusplus
}
#endif
#endif
