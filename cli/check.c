/* check.c: lawson check: case folders in worker processes, so that a crash or a hang is one failed
 * case and nothing more. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"

#define CHECK_MAX_JOBS 64
#define CHECK_LINE_BYTES 4096

static const cli_option check_options[] = {
    {"jobs", "N", "1", "cases at the same time", NULL, 'j'},
    {"timeout", "S", "300", "seconds after which a case is given up as hanging", NULL, 0},
    {"time-factor", "F", "1",
     "multiplies compile_s_max of every case, for slow machines;\n0 ignores it", NULL, 0},
    {"verbose", NULL, NULL, "say something about the cases that passed, too", NULL, 'v'},
    {"json", "FILE", NULL, "write every case's result as JSON, '-' for the standard output", NULL,
     0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

typedef struct check_worker {
  pid_t pid; /* 0: none */
  int to, from;
  size_t index; /* of the case it works on */
  bool busy;
  double deadline_s;
  char line[CHECK_LINE_BYTES];
  size_t length;
} check_worker;

typedef struct check_run {
  case_settings settings;
  char **folders;
  case_outcome *outcomes;
  size_t count, next, done;
  double timeout_s;
  bool verbose, quiet;
  size_t tally[3]; /* by case_result */
  check_worker workers[CHECK_MAX_JOBS];
  size_t worker_count;
} check_run;

/* ---- the worker: reads a case's number, answers "result seconds reason" ----- */

static bool read_index(int fd, uint32_t *out) {
  size_t got = 0;
  while (got < sizeof *out) {
    ssize_t n = read(fd, (char *)out + got, sizeof *out - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    got += (size_t)n;
  }
  return true;
}

static void answer(int fd, const case_outcome *o) {
  char line[CHECK_LINE_BYTES];
  int n = snprintf(line, sizeof line - 1, "%d %.6f %s", (int)o->result, o->seconds, o->reason);
  size_t length = n < 0 ? 0 : (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
  for (size_t i = 0; i < length; i++) {
    if (line[i] == '\n') line[i] = ' ';
  }
  line[length++] = '\n';
  for (size_t at = 0; at < length;) {
    ssize_t w = write(fd, line + at, length - at);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) return;
    at += (size_t)w;
  }
}

/* Never returns. */
static void worker_main(const check_run *run, int from, int to) {
  lw_options *options;
  lw_tools_device *device = NULL; /* kept open: the driver's state outlives each model */
  bool opened = false;
  uint32_t index;
  while (read_index(from, &index)) {
    if (!opened && cli_options_make(run->settings.args, &options) == 0) {
      lw_status status = lw_tools_device_open(options, &device, NULL);
      (void)status; /* each case says what is wrong with the device */
      lw_options_destroy(options);
    }
    opened = true;
    case_outcome outcome = case_run(&run->settings, run->folders[index]);
    answer(to, &outcome);
    free(outcome.reason);
  }
  lw_tools_device_close(device);
  exit(0);
}

/* ---- the parent ----- */

static void close_other_workers(const check_run *run, const check_worker *mine) {
  for (size_t i = 0; i < run->worker_count; i++) {
    if (&run->workers[i] == mine || run->workers[i].pid == 0) continue;
    close(run->workers[i].to);
    close(run->workers[i].from);
  }
}

static bool worker_start(check_run *run, check_worker *w) {
  int down[2], up[2];
  if (pipe(down) != 0) return false;
  if (pipe(up) != 0) {
    close(down[0]);
    close(down[1]);
    return false;
  }
  fflush(stdout);
  fflush(stderr);
  pid_t pid = fork();
  if (pid == 0) {
    close_other_workers(run, w);
    close(down[1]);
    close(up[0]);
    worker_main(run, down[0], up[1]);
  }
  close(down[0]);
  close(up[1]);
  *w = (check_worker){.pid = pid > 0 ? pid : 0, .to = down[1], .from = up[0]};
  if (pid > 0) return true;
  close(down[1]);
  close(up[0]);
  return false;
}

/* Waits for the worker to end; *out_how says how it did. */
static void worker_stop(check_worker *w, bool kill_it, char **out_how) {
  int status = 0;
  close(w->to);
  close(w->from);
  if (kill_it) (void)kill(w->pid, SIGKILL);
  while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (out_how != NULL) {
    *out_how = WIFSIGNALED(status)
                   ? cli_format("crashed: %s", strsignal(WTERMSIG(status)))
                   : cli_format("the process ended with code %d", WEXITSTATUS(status));
  }
  w->pid = 0;
  w->busy = false;
}

static void report_case(const check_run *run, size_t index) {
  static const char *const words[] = {"pass", "FAIL", "skip"};
  static const char *const styles[] = {"green", "red", "dim"};
  const case_outcome *o = &run->outcomes[index];
  if (run->quiet || (o->result == CASE_PASSED && !run->verbose)) return;
  cli_progress("%s", "");
  printf("%s%s%s  %s  (%.2f s)%s%s\n", cli_style(stdout, styles[o->result]), words[o->result],
         cli_style(stdout, ""), run->folders[index], o->seconds, o->reason[0] != '\0' ? "  " : "",
         o->reason);
  fflush(stdout);
}

static void case_done(check_run *run, size_t index, case_outcome outcome) {
  run->outcomes[index] = outcome;
  run->tally[outcome.result]++;
  run->done++;
  report_case(run, index);
  cli_progress("%zu of %zu", run->done, run->count);
}

static void case_crashed(check_run *run, check_worker *w, bool hangs) {
  size_t index = w->index;
  bool was_busy = w->busy;
  char *how;
  worker_stop(w, hangs, &how);
  if (hangs) {
    free(how);
    how = cli_format("no result after %.0f s, given up", run->timeout_s);
  }
  if (was_busy) {
    case_done(run, index, (case_outcome){.result = CASE_FAILED, .reason = how});
  } else {
    free(how);
  }
}

static bool give_case(check_run *run, check_worker *w) {
  uint32_t index = (uint32_t)run->next;
  if (w->pid == 0 && !worker_start(run, w)) {
    cli_fail(LW_STATUS_OUT_OF_MEMORY, "no process for a worker: %s", strerror(errno));
    return false;
  }
  w->index = run->next++;
  w->busy = true;
  w->deadline_s = cli_now_s() + run->timeout_s;
  if (write(w->to, &index, sizeof index) != (ssize_t)sizeof index) case_crashed(run, w, false);
  return true;
}

/* The answer's line is complete. */
static void take_answer(check_run *run, check_worker *w) {
  int result, at = 0;
  case_outcome o = {.result = CASE_FAILED};
  w->line[w->length] = '\0';
  bool fits = sscanf(w->line, "%d %lf %n", &result, &o.seconds, &at) >= 2 && at > 0 &&
              result >= 0 && result <= CASE_SKIPPED;
  if (fits) o.result = (case_result)result;
  o.reason = cli_format("%s", fits ? w->line + at : "the worker's answer makes no sense");
  w->busy = false;
  w->length = 0;
  case_done(run, w->index, o);
}

static void read_answer(check_run *run, check_worker *w) {
  ssize_t n = read(w->from, w->line + w->length, sizeof w->line - 1 - w->length);
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) {
    case_crashed(run, w, false);
    return;
  }
  w->length += (size_t)n;
  if (w->line[w->length - 1] == '\n') {
    w->length--;
    take_answer(run, w);
  } else if (w->length == sizeof w->line - 1) {
    case_crashed(run, w, true);
  }
}

static bool give_work(check_run *run) {
  for (size_t i = 0; i < run->worker_count; i++) {
    while (!run->workers[i].busy && run->next < run->count) {
      if (!give_case(run, &run->workers[i])) return false;
    }
  }
  return true;
}

static void wait_for_answers(check_run *run) {
  struct pollfd polls[CHECK_MAX_JOBS];
  for (size_t i = 0; i < run->worker_count; i++) {
    const check_worker *w = &run->workers[i];
    polls[i] = (struct pollfd){.fd = w->busy ? w->from : -1, .events = POLLIN};
  }
  if (poll(polls, run->worker_count, 200) < 0) return;
  double now = cli_now_s();
  for (size_t i = 0; i < run->worker_count; i++) {
    check_worker *w = &run->workers[i];
    if (!w->busy) continue;
    if (polls[i].revents != 0) {
      read_answer(run, w);
    } else if (now > w->deadline_s) {
      case_crashed(run, w, true);
    }
  }
}

static bool run_all(check_run *run) {
  bool ok = true;
  while (ok && run->done < run->count) {
    ok = give_work(run);
    if (ok && run->done < run->count) wait_for_answers(run);
  }
  for (size_t i = 0; i < run->worker_count; i++) {
    if (run->workers[i].pid != 0) worker_stop(&run->workers[i], !ok, NULL);
  }
  cli_progress("%s", "");
  return ok;
}

/* ---- the report ----- */

static json_t *report_json(const check_run *run) {
  static const char *const words[] = {"passed", "failed", "skipped"};
  json_t *root =
      json_pack("{s:s, s:I, s:I, s:I}", "schema", "lawson-check-1", "passed",
                (json_int_t)run->tally[CASE_PASSED], "failed", (json_int_t)run->tally[CASE_FAILED],
                "skipped", (json_int_t)run->tally[CASE_SKIPPED]);
  json_t *cases = json_array();
  for (size_t i = 0; i < run->count; i++) {
    const case_outcome *o = &run->outcomes[i];
    json_array_append_new(
        cases,
        json_pack("{s:o, s:s, s:f, s:o}", "folder", cli_json_text(run->folders[i]), "result",
                  words[o->result], "seconds", o->seconds, "reason", cli_json_text(o->reason)));
  }
  json_object_set_new(root, "cases", cases);
  return root;
}

static int finish(const cli_args *args, const check_run *run) {
  const char *json = cli_text(args, "json", NULL);
  if (json != NULL && !cli_json_write(report_json(run), json)) return LW_STATUS_USAGE;
  if (!run->quiet) {
    printf("%zu passed, %zu failed, %zu skipped\n", run->tally[CASE_PASSED],
           run->tally[CASE_FAILED], run->tally[CASE_SKIPPED]);
  }
  return run->tally[CASE_FAILED] > 0 ? LW_STATUS_CHECK_FAILED : 0;
}

/* A folder that is not there is a slip of the caller's, not a case that fails. */
static int check_folders(const check_run *run) {
  for (size_t i = 0; i < run->count; i++) {
    struct stat info;
    if (stat(run->folders[i], &info) != 0) {
      return cli_fail(LW_STATUS_IO, "case folder '%s': %s", run->folders[i], strerror(errno));
    }
    if (!S_ISDIR(info.st_mode)) {
      return cli_fail(LW_STATUS_USAGE, "'%s' is no case folder", run->folders[i]);
    }
  }
  return 0;
}

static int check(const cli_args *args, check_run *run) {
  long long jobs;
  lw_options *options;
  const char *json = cli_text(args, "json", NULL);
  run->settings = (case_settings){.args = args, .fused = !cli_has(args, "no-fuse")};
  run->verbose = cli_has(args, "verbose");
  run->quiet = json != NULL && strcmp(json, "-") == 0;
  bool ok = cli_number(args, "jobs", 1, 1, CHECK_MAX_JOBS, &jobs) &&
            cli_real(args, "timeout", 300, 0.01, 1e6, &run->timeout_s) &&
            cli_real(args, "time-factor", 1, 0, 1e6, &run->settings.time_factor);
  if (!ok) return LW_STATUS_USAGE;
  int code = check_folders(run);
  if (code != 0) return code;
  code = cli_options_make(args, &options); /* wrong options are said once, not per case */
  if (code != 0) return code;
  lw_options_destroy(options);
  run->worker_count = (size_t)jobs;
  return run_all(run) ? finish(args, run) : LW_STATUS_OUT_OF_MEMORY;
}

static int run_check(const cli_args *args) {
  check_run *run = cli_alloc(1, sizeof *run);
  run->folders = args->operands;
  run->count = args->operand_count;
  run->outcomes = cli_alloc(run->count, sizeof *run->outcomes);
  (void)signal(SIGPIPE, SIG_IGN); /* a worker that died is found when it is read from */
  int code = check(args, run);
  for (size_t i = 0; i < run->count; i++) free(run->outcomes[i].reason);
  free(run->outcomes);
  free(run);
  return code;
}

const cli_command cli_command_check = {
    .name = "check",
    .operands = "DIR ...",
    .summary = "run case folders and compare with their expected outputs",
    .about =
        "A case is a folder with model.onnx, in_0.npy, in_1.npy ... and out_0.npy ..., in\n"
        "the model's order, and case.json, which says what is expected (docs/cli.md lists\n"
        "its keys; one that is unknown fails the case). Folders without case.json get rtol\n"
        "1e-3 and atol 1e-4 for f32 and f64, 2e-2 for narrower floats, and integers must be\n"
        "equal. Every case runs in a worker process: a crash or a hang fails that case\n"
        "alone. The last line counts.",
    .examples =
        "  lawson check cases/*\n"
        "  lawson check --device cpu --no-fuse -j 4 cases/T1*\n"
        "  lawson check --json results.json cases/*\n",
    .tables = {check_options, cli_compile_options},
    .operands_min = 1,
    .operands_max = 1000000,
    .run = run_check,
};
