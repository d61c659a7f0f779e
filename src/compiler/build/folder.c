/* folder.c: private working folders for compilers, and those that killed processes left behind.
 *
 * A folder belongs to whoever holds its lock. The lock goes away with the process, however it ends;
 * the pid would not do: it comes again, and means nothing in another container on the same /tmp. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/build/internal.h"

#define FOLDER_NAME "lawson-build-"
#define FOLDER_RANDOM "XXXXXX"
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

static lw_status folder_fail(lw_diag *diag, const char *parent, int error) {
  char text[128];
  lw_status status = error == ENOMEM ? LW_STATUS_OUT_OF_MEMORY : LW_STATUS_DEVICE_FAILED;
  return lw__fail(diag, status, parent, "cannot make a working folder: %s",
                  error == ENOSPC ? "the disk is full" : strerror_r(error, text, sizeof text));
}

/* Locks the folder that was just made. False: it was swept away before that. */
static bool folder_lock(lw_folder *folder) {
  struct stat mine, there;
  folder->fd = open(folder->path.data, FOLDER_FLAGS);
  if (folder->fd < 0) return false;
  if (flock(folder->fd, LOCK_EX) == 0 && fstat(folder->fd, &mine) == 0 &&
      stat(folder->path.data, &there) == 0 && mine.st_ino == there.st_ino) {
    return true;
  }
  (void)close(folder->fd);
  folder->fd = -1;
  return false;
}

lw_status lw__folder_create(const char *parent, lw_diag *diag, lw_folder *out) {
  enum { ATTEMPTS = 100 };
  *out = (lw_folder){.fd = -1};
  int error = 0;
  for (int i = 0; i < ATTEMPTS; i++) {
    lw__text_clear(&out->path);
    lw__text_add(&out->path, "%s/" FOLDER_NAME FOLDER_RANDOM, parent);
    LW_TRY(out->path.status);
    if (mkdtemp(out->path.data) == NULL) {
      error = errno;
      break;
    }
    if (folder_lock(out)) return LW_OK;
    error = errno;
  }
  lw__text_clear(&out->path);
  return folder_fail(diag, parent, error);
}

static void folder_empty(int fd) {
  int own = dup(fd);
  DIR *folder = own < 0 ? NULL : fdopendir(own);
  if (folder == NULL) {
    if (own >= 0) (void)close(own);
    return;
  }
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    (void)unlinkat(dirfd(folder), entry->d_name, 0);
  }
  (void)closedir(folder);
}

void lw__folder_remove(lw_folder *folder) {
  if (folder->fd >= 0) {
    folder_empty(folder->fd);
    (void)rmdir(folder->path.data);
    (void)close(folder->fd);
  }
  lw__text_deinit(&folder->path);
  folder->fd = -1;
}

static bool folder_is_named(const char *name) {
  size_t prefix = strlen(FOLDER_NAME);
  return strncmp(name, FOLDER_NAME, prefix) == 0 && strlen(name) == prefix + strlen(FOLDER_RANDOM);
}

/* Removes |name| in the folder |parent| unless it is somebody's. */
static void folder_sweep_one(int parent, const char *name) {
  struct stat info;
  int fd = openat(parent, name, FOLDER_FLAGS);
  if (fd < 0) return;
  bool ours = fstat(fd, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 0777) == 0700;
  if (ours && flock(fd, LOCK_EX | LOCK_NB) == 0) {
    folder_empty(fd);
    (void)unlinkat(parent, name, AT_REMOVEDIR);
  }
  (void)close(fd);
}

void lw__folder_sweep(const char *parent) {
  DIR *folder = opendir(parent);
  if (folder == NULL) return;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (folder_is_named(entry->d_name)) folder_sweep_one(dirfd(folder), entry->d_name);
  }
  (void)closedir(folder);
}
