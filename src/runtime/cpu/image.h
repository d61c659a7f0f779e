/* image.h: shared objects that live in memory, without a file. */
#ifndef LW_RUNTIME_CPU_IMAGE_H
#define LW_RUNTIME_CPU_IMAGE_H

#include "base/base.h"

typedef struct lw_rt_image {
  void *handle;
  int fd;
} lw_rt_image;

/* Loads a shared object of this machine from |data|, which is copied. */
lw_status lw__rt_image_open(const void *data, size_t bytes, lw_diag *diag,
                            lw_rt_image *out) LW_MUST_CHECK;
void lw__rt_image_close(lw_rt_image *image);
/* NULL when the image has no function of that name. */
void *lw__rt_image_symbol(const lw_rt_image *image, const char *name);

#endif
