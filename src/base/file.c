/* file.c: reading files as mappings, writing them in one step, and the clock. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/internal.h"

/* O_NONBLOCK: opening a named pipe must not wait for its writer. */
#define FILE_OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

static lw_status file_fail(lw_diag *diag, const char *where, const char *what, int error) {
  lw_status status = error == ENOENT ? LW_STATUS_NOT_FOUND : LW_STATUS_IO;
  if (error == ENOMEM) status = LW_STATUS_OUT_OF_MEMORY;
  char text[128];
  const char *reason = strerror_r(error, text, sizeof text);
  return lw__fail(diag, status, where, "%s: %s", what, reason);
}

static void file_close(int fd) {
  if (fd >= 0) (void)close(fd);
}

/* Maps what |fd| stands for; |info| is of |fd| and of a regular file. */
static lw_status file_map_fd(int fd, const struct stat *info, const char *where, lw_diag *diag,
                             lw_file_map *out) {
  *out = (lw_file_map){0};
  if (info->st_size == 0) return LW_OK;
  if (info->st_size < 0 || (uint64_t)info->st_size > PTRDIFF_MAX) {
    return lw__fail(diag, LW_STATUS_IO, where, "the file is too large to be mapped");
  }
  size_t bytes = (size_t)info->st_size;
  void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return file_fail(diag, where, "cannot map the file", errno);
  *out = (lw_file_map){.data = data, .bytes = bytes};
  return LW_OK;
}

lw_status lw__file_map(const char *path, lw_diag *diag, lw_file_map *out) {
  *out = (lw_file_map){0};
  int fd = open(path, FILE_OPEN_FLAGS);
  if (fd < 0) return file_fail(diag, path, "cannot open the file", errno);
  struct stat info;
  lw_status status;
  if (fstat(fd, &info) != 0) {
    status = file_fail(diag, path, "cannot look at the file", errno);
  } else if (!S_ISREG(info.st_mode)) {
    status = lw__fail(diag, LW_STATUS_IO, path, "not a regular file");
  } else {
    status = file_map_fd(fd, &info, path, diag, out);
  }
  file_close(fd);
  return status;
}

void lw__file_unmap(lw_file_map *map) {
  if (map->data != NULL) (void)munmap((void *)(uintptr_t)map->data, map->bytes);
  *map = (lw_file_map){0};
}

int lw__file_open_kernel(int dir_fd, const char *relative) {
  struct open_how how = {.flags = FILE_OPEN_FLAGS,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  return (int)syscall(SYS_openat2, dir_fd, relative, &how, sizeof how);
}

int lw__file_open_walk(int dir_fd, const char *relative) {
  int folder = dir_fd;
  const char *rest = relative;
  int fd = -1, error = 0;
  for (;;) {
    char part[NAME_MAX + 1];
    size_t length = strcspn(rest, "/");
    if (length > NAME_MAX) {
      error = ENAMETOOLONG;
      break;
    }
    memcpy(part, rest, length);
    part[length] = '\0';
    bool last = rest[length] == '\0';
    rest += length + !last;
    if (!last && (length == 0 || strcmp(part, ".") == 0)) continue;
    int flags = last ? FILE_OPEN_FLAGS : O_PATH | O_DIRECTORY | O_CLOEXEC;
    fd = openat(folder, part, flags | O_NOFOLLOW);
    if (fd < 0) error = errno;
    if (last || fd < 0) break;
    if (folder != dir_fd) file_close(folder);
    folder = fd;
  }
  if (folder != dir_fd) file_close(folder);
  errno = error;
  return error == 0 ? fd : -1;
}

/* Why |relative| may not name a file below a folder, or NULL. */
static const char *file_refusal(lw_str relative) {
  if (relative.len == 0) return "the file name is empty";
  if (relative.len >= PATH_MAX) return "the file name is too long";
  if (memchr(relative.ptr, '\0', relative.len) != NULL) return "the file name holds a NUL byte";
  if (relative.ptr[0] == '/') return "the file name is absolute";
  if (relative.ptr[relative.len - 1] == '/') return "the file name ends in a slash";
  for (size_t i = 0, start = 0; i <= relative.len; i++) {
    if (i < relative.len && relative.ptr[i] != '/') continue;
    if (lw__str_is(lw__str(relative.ptr + start, i - start), "..")) {
      return "the file name holds \"..\"";
    }
    start = i + 1;
  }
  return NULL;
}

static lw_status file_map_checked(int fd, const char *where, lw_diag *diag, lw_file_map *out) {
  struct stat info;
  if (fstat(fd, &info) != 0) return file_fail(diag, where, "cannot look at the file", errno);
  if (!S_ISREG(info.st_mode)) {
    return lw__fail(diag, LW_STATUS_MODEL_INVALID, where, "not a regular file");
  }
  if (info.st_nlink > 1) {
    return lw__fail(diag, LW_STATUS_MODEL_INVALID, where,
                    "the file has more than one name (a hard link) and is not read");
  }
  return file_map_fd(fd, &info, where, diag, out);
}

lw_status lw__file_map_beneath(const char *dir, lw_str relative, lw_diag *diag, lw_file_map *out) {
  *out = (lw_file_map){0};
  const char *refusal = file_refusal(relative);
  if (refusal != NULL) return lw__fail(diag, LW_STATUS_MODEL_INVALID, dir, "%s", refusal);
  char name[PATH_MAX];
  memcpy(name, relative.ptr, relative.len);
  name[relative.len] = '\0';
  int dir_fd = open(dir[0] == '\0' ? "." : dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir_fd < 0) return file_fail(diag, dir, "cannot open the folder", errno);
  int fd = lw__file_open_kernel(dir_fd, name);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) fd = lw__file_open_walk(dir_fd, name);
  int error = errno;
  file_close(dir_fd);
  if (fd < 0) {
    if (error != ELOOP && error != EXDEV && error != ENOTDIR) {
      return file_fail(diag, name, "cannot open the file", error);
    }
    return lw__fail(diag, LW_STATUS_MODEL_INVALID, name,
                    "the way to the file is not made of folders (symbolic links are not followed)");
  }
  lw_status status = file_map_checked(fd, name, diag, out);
  file_close(fd);
  return status;
}

/* 0 or errno. */
static int file_write_all(int fd, const void *data, size_t bytes) {
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

/* Devices and pipes (/dev/stdout) and links are written through, not replaced. */
static bool file_is_replaceable(const char *path) {
  struct stat info;
  return lstat(path, &info) != 0 || S_ISREG(info.st_mode);
}

/* A new file beside |path|; the attempt's number and the clock keep writers apart. */
static int file_open_temp(const char *path, char *temp, size_t temp_bytes) {
  for (int attempt = 0; attempt < 100; attempt++) {
    int length = snprintf(temp, temp_bytes, "%s.%lx-%llx.tmp", path, (long)getpid(),
                          (unsigned long long)lw__now_ns());
    if (length < 0 || (size_t)length >= temp_bytes) {
      errno = ENAMETOOLONG;
      return -1;
    }
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

lw_status lw__file_write(const char *path, const void *data, size_t bytes, lw_diag *diag) {
  char temp[PATH_MAX];
  bool replace = file_is_replaceable(path);
  int fd = replace ? file_open_temp(path, temp, sizeof temp)
                   : open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return file_fail(diag, path, "cannot create the file", errno);
  int error = file_write_all(fd, data, bytes);
  if (close(fd) != 0 && error == 0 && errno != EINTR) error = errno;
  if (replace && error == 0 && rename(temp, path) != 0) error = errno;
  if (error == 0) return LW_OK;
  if (replace) (void)unlink(temp);
  return file_fail(diag, path, "cannot write the file", error);
}

int64_t lw__now_ns(void) {
  struct timespec now = {0};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
