/* process.c: running a compiler as a child process, and the private folders that it works in. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler/build/internal.h"

#define PROCESS_OUTPUT_LIMIT ((size_t)64 << 10)

/* ---- finding ---- */

static bool process_is_program(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

bool lw__process_find(const char *name, const char *path, lw_text *out_path) {
  lw__text_clear(out_path);
  if (strchr(name, '/') != NULL) {
    lw__text_add(out_path, "%s", name);
    return out_path->status == LW_OK && process_is_program(name);
  }
  while (path != NULL && *path != '\0') {
    size_t length = strcspn(path, ":");
    /* Empty and relative entries mean the working folder: no place for a compiler. */
    if (path[0] == '/') {
      lw__text_clear(out_path);
      lw__text_add(out_path, "%.*s/%s", (int)length, path, name);
      if (out_path->status != LW_OK) return false;
      if (process_is_program(out_path->data)) return true;
    }
    path += length;
    if (*path == ':') path++;
  }
  return false;
}

/* ---- running ---- */

static lw_status process_fail(lw_diag *diag, const char *program, const char *what, int error) {
  char text[128];
  lw_status status = error == ENOMEM ? LW_STATUS_OUT_OF_MEMORY : LW_STATUS_DEVICE_FAILED;
  return lw__fail(diag, status, program, "%s: %s", what, strerror_r(error, text, sizeof text));
}

static int process_spawn(char *const argv[], char *const envp[], int output_fd, pid_t *out_pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&files);
  if (error != 0) return error;
  error = posix_spawnattr_init(&attributes);
  if (error != 0) {
    (void)posix_spawn_file_actions_destroy(&files);
    return error;
  }
  sigset_t none, defaults;
  (void)sigemptyset(&none);
  (void)sigemptyset(&defaults);
  (void)sigaddset(&defaults, SIGPIPE);
  (void)sigaddset(&defaults, SIGCHLD);
  /* A group of its own, so that the compiler's own children can be ended with it. */
  (void)posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  (void)posix_spawnattr_setpgroup(&attributes, 0);
  (void)posix_spawnattr_setsigmask(&attributes, &none);
  (void)posix_spawnattr_setsigdefault(&attributes, &defaults);
  error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&files, output_fd, 1);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&files, output_fd, 2);
  if (error == 0) error = posix_spawn(out_pid, argv[0], &files, &attributes, argv, envp);
  (void)posix_spawnattr_destroy(&attributes);
  (void)posix_spawn_file_actions_destroy(&files);
  return error;
}

/* Reads until the other end is closed; false when |deadline_ns| comes first. */
static bool process_drain(int fd, int64_t deadline_ns, lw_text *output) {
  char chunk[4096];
  for (;;) {
    int64_t left_ns = deadline_ns - lw__now_ns();
    if (left_ns <= 0) return false;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int64_t left_ms = left_ns / 1000000 + 1;
    int ready = poll(&wait, 1, left_ms > 60000 ? 60000 : (int)left_ms);
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    ssize_t got = read(fd, chunk, sizeof chunk);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return true;
    size_t room = PROCESS_OUTPUT_LIMIT -
                  (output->len < PROCESS_OUTPUT_LIMIT ? output->len : PROCESS_OUTPUT_LIMIT);
    lw__text_add_n(output, chunk, (size_t)got < room ? (size_t)got : room);
  }
}

/* Waits for the exit; false when |deadline_ns| comes first. */
static bool process_reap(pid_t pid, int64_t deadline_ns, int *out_code) {
  int64_t pause_ns = 50000;
  for (;;) {
    int state = 0;
    pid_t done = waitpid(pid, &state, WNOHANG);
    if (done == pid) {
      *out_code = WIFEXITED(state) ? WEXITSTATUS(state) : 256 + WTERMSIG(state);
      return true;
    }
    if (done < 0 && errno != EINTR) {
      /* The program around us ignores or reaps children itself. What the child wrote will tell. */
      *out_code = 0;
      return true;
    }
    if (lw__now_ns() >= deadline_ns) return false;
    struct timespec pause = {.tv_nsec = pause_ns};
    (void)nanosleep(&pause, NULL);
    if (pause_ns < 2000000) pause_ns *= 2;
  }
}

lw_status lw__process_run(char *const argv[], char *const envp[], int64_t limit_ns, lw_text *output,
                          int *out_code, lw_diag *diag) {
  *out_code = -1;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return process_fail(diag, argv[0], "cannot make a pipe", errno);
  int64_t deadline_ns = lw__now_ns() + limit_ns;
  pid_t pid;
  int error = process_spawn(argv, envp, ends[1], &pid);
  (void)close(ends[1]);
  if (error != 0) {
    (void)close(ends[0]);
    return process_fail(diag, argv[0], "cannot run the compiler", error);
  }
  bool finished =
      process_drain(ends[0], deadline_ns, output) && process_reap(pid, deadline_ns, out_code);
  if (!finished) {
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    (void)process_reap(pid, INT64_MAX, out_code);
  }
  (void)close(ends[0]);
  if (!finished) {
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, argv[0], "stopped after %.0f s without a result",
                    (double)limit_ns * 1e-9);
  }
  return output->status;
}
