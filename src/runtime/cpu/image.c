/* image.c: loads shared objects from memory through an anonymous file. */
#include "runtime/cpu/image.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U /* Linux 6.3 */
#endif

static int image_memory(void) {
  int fd = memfd_create("lawson-kernels", MFD_CLOEXEC | MFD_EXEC);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("lawson-kernels", MFD_CLOEXEC);
  return fd;
}

static int image_write(int fd, const void *data, size_t bytes) {
  const char *p = data;
  while (bytes != 0) {
    ssize_t written = write(fd, p, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    p += written;
    bytes -= (size_t)written;
  }
  return 0;
}

static lw_status image_fail(lw_diag *diag, const char *what, int error) {
  char text[128];
  return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cpu", "%s: %s", what,
                  strerror_r(error, text, sizeof text));
}

/* The descriptor stays open as long as the object is loaded: the loader knows objects by path, and
 * a later image with the same number in its path would be taken for this one. */
lw_status lw__rt_image_open(const void *data, size_t bytes, lw_diag *diag, lw_rt_image *out) {
  *out = (lw_rt_image){.fd = -1};
  if (data == NULL || bytes == 0) {
    return lw__fail(diag, LW_STATUS_INTERNAL, "cpu", "a kernel was not built");
  }
  int fd = image_memory();
  if (fd < 0) return image_fail(diag, "cannot make memory for kernels", errno);
  int error = image_write(fd, data, bytes);
  if (error != 0) {
    (void)close(fd);
    return image_fail(diag, "cannot copy kernels into memory", error);
  }
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    const char *reason = dlerror();
    (void)lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cpu", "cannot load kernels: %s",
                   reason == NULL ? "unknown reason" : reason);
    (void)close(fd);
    return LW_STATUS_DEVICE_FAILED;
  }
  *out = (lw_rt_image){.handle = handle, .fd = fd};
  return LW_OK;
}

void lw__rt_image_close(lw_rt_image *image) {
  if (image->handle != NULL) (void)dlclose(image->handle);
  if (image->fd >= 0) (void)close(image->fd);
  *image = (lw_rt_image){.fd = -1};
}

void *lw__rt_image_symbol(const lw_rt_image *image, const char *name) {
  return dlsym(image->handle, name);
}
