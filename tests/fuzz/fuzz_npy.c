/* fuzz_npy.c: any bytes as a .npy file. Whatever comes in, the reader ends soon, takes memory in
 * proportion to the file, and what it accepts has as many bytes as its shape says. */
#include <stdlib.h>

#include "api/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lw_diag diag = {0};
  lw_npy npy;
  if (lw__npy_parse(data, size, "fuzz", &diag, &npy) == LW_OK) {
    size_t bytes = lw_dtype_size_bytes(npy.dtype);
    for (int d = 0; d < npy.rank; d++)
      if (npy.dims[d] < 0 || !lw__mul_size(bytes, (size_t)npy.dims[d], &bytes)) abort();
    if (bytes != npy.bytes || npy.bytes > size || (npy.data == NULL) != (bytes == 0)) abort();
    volatile uint8_t sum = 0; /* every byte is there */
    for (size_t i = 0; i < npy.bytes; i++) sum = (uint8_t)(sum + ((const uint8_t *)npy.data)[i]);
    lw__npy_deinit(&npy);
  } else if (diag.messages.count == 0) {
    abort(); /* every refusal says why */
  }
  lw__diag_deinit(&diag);
  return 0;
}
