/* npy.h: reads and writes .npy files (NumPy format 1.0 to 3.0), the command line's way in and out
 * for tensors. Files come from strangers: every length is checked before it is used. */
#ifndef LW_API_NPY_H
#define LW_API_NPY_H

#include "base/base.h"

typedef struct lw_npy {
  lw_dtype dtype;
  int rank;
  int64_t dims[LW_MAX_RANK];
  void *data; /* row-major, this machine's byte order; from lw__mem_resize, NULL when bytes is 0 */
  size_t bytes;
} lw_npy;

/* Types: bool, (u)int8 to 64, float16, 32, 64 of either byte order, C or Fortran order (turned
 * into this machine's and row-major). Opaque elements of one or two bytes (how ml_dtypes arrays
 * are saved) read as u8 and u16. Everything else, and a file that is cut short or no .npy at
 * all, is LW_STATUS_USAGE and says what it is. Bytes after the data are ignored. */
lw_status lw__npy_read(const char *path, lw_diag *diag, lw_npy *out) LW_MUST_CHECK;
lw_status lw__npy_parse(const void *file, size_t bytes, const char *where, lw_diag *diag,
                        lw_npy *out) LW_MUST_CHECK;
void lw__npy_deinit(lw_npy *npy);

/* Writes |data| row-major. NumPy knows no bf16 and f8: they go out as raw bits in uint16 and
 * uint8. */
lw_status lw__npy_write(const char *path, lw_dtype dtype, int rank, const int64_t *dims,
                        const void *data, lw_diag *diag) LW_MUST_CHECK;

#endif
