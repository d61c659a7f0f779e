/* case_run.c: running one case folder and judging what came out. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case.h"

/* What folders without case.json get (and the types that a tolerance is for). */
#define CASE_F32_RTOL 1e-3
#define CASE_F32_ATOL 1e-4
#define CASE_NARROW_TOL 2e-2 /* f16, bf16, f8 */
/* Elements of an input that may decide shapes. */
#define CASE_MAX_FLOATS 8
#define CASE_MAX_INTEGERS 64

typedef struct case_state {
  const case_settings *settings;
  const char *folder;
  case_spec spec;
  lw_options *options;
  lw_model *model;
  lw_context *context;
  lw_tools_array *inputs, *outputs, *wanted;
  size_t input_count, output_count; /* of inputs and wanted */
  char **names;                     /* of the inputs */
  size_t made_count;                /* of outputs: counts of others stand behind the model's */
  double started_s;
  case_outcome outcome;
} case_state;

/* The first verdict stands. */
static bool verdict(case_state *c, case_result result, const char *fmt, ...) LW_PRINTF(3, 4);
static bool verdict(case_state *c, case_result result, const char *fmt, ...) {
  va_list args;
  char *text = NULL;
  va_start(args, fmt);
  int n = vasprintf(&text, fmt, args);
  va_end(args);
  if (n < 0) text = cli_format("%s", "");
  free(c->outcome.reason);
  c->outcome.result = result;
  c->outcome.reason = text;
  return result == CASE_PASSED;
}

/* ---- errors that are as they should be ----- */

/* A refusal blames the model or says what is not supported, with a message. */
static bool is_clean_refusal(lw_status status, const char *message) {
  bool blames = status == LW_STATUS_MODEL_INVALID || status == LW_STATUS_UNSUPPORTED ||
                status == LW_STATUS_OUT_OF_MEMORY || status == LW_STATUS_NOT_FOUND ||
                status == LW_STATUS_IO;
  return blames && message != NULL && message[0] != '\0';
}

/* True when the case may go on. */
static bool check_time(case_state *c, double seconds) {
  double limit = c->spec.compile_s_max * c->settings->time_factor;
  if (c->spec.compile_s_max < 0 || c->settings->time_factor <= 0 || seconds <= limit) return true;
  return verdict(c, CASE_FAILED, "it took %.2f s from file to result, %.2f s are allowed", seconds,
                 limit);
}

static bool judge_refusal(case_state *c, lw_status status, const char *message) {
  double seconds = cli_now_s() - c->started_s;
  if (status == LW_OK) return verdict(c, CASE_FAILED, "the model was accepted, an error is due");
  if (!is_clean_refusal(status, message)) {
    return verdict(c, CASE_FAILED, "refused, but not for a fault of the model: %s (%s)", message,
                   lw_status_name(status));
  }
  return check_time(c, seconds) && verdict(c, CASE_PASSED, "refused: %s", message);
}

/* ---- every prefix ----- */

static bool read_file(const char *path, unsigned char **out_data, size_t *out_bytes) {
  struct stat info;
  FILE *file = fopen(path, "rb");
  *out_data = NULL;
  *out_bytes = 0;
  if (file == NULL || fstat(fileno(file), &info) != 0) return false;
  *out_bytes = (size_t)info.st_size;
  *out_data = cli_alloc(*out_bytes, 1);
  bool whole = fread(*out_data, 1, *out_bytes, file) == *out_bytes;
  fclose(file);
  return whole;
}

/* One prefix is refused by the importer, cleanly. Nothing needs a device for that. */
static bool check_prefix(case_state *c, const char *path, size_t length) {
  lw_model *model = NULL;
  lw_status status = lw_model_load(path, c->options, &model);
  const char *message = lw_model_error(model);
  bool clean = status != LW_OK && is_clean_refusal(status, message);
  if (!clean) {
    verdict(c, CASE_FAILED, "its first %zu bytes are %s%s", length,
            status == LW_OK ? "accepted as a model" : "refused badly: ",
            status == LW_OK ? "" : message);
  }
  lw_model_destroy(model);
  return clean;
}

static bool check_prefixes(case_state *c, const char *path) {
  unsigned char *data;
  size_t bytes;
  int fd = memfd_create("prefix", MFD_CLOEXEC);
  bool ok = fd >= 0 && read_file(path, &data, &bytes);
  if (!ok) verdict(c, CASE_FAILED, "the model's prefixes cannot be made: %s", strerror(errno));
  char *link = cli_format("/proc/self/fd/%d", fd);
  for (size_t n = 0; ok && n < bytes; n++) {
    ok = check_prefix(c, link, n);
    if (ok && write(fd, data + n, 1) != 1) {
      ok = verdict(c, CASE_FAILED, "the prefix of %zu bytes cannot be written", n + 1);
    }
  }
  free(link);
  if (fd >= 0) {
    free(data);
    close(fd);
  }
  return ok;
}

/* ---- arrays ----- */

static bool read_array(case_state *c, const char *stem, size_t index, lw_tools_array *out) {
  char *path = cli_format("%s/%s_%zu.npy", c->folder, stem, index);
  lw_tools_reason reason;
  lw_status status = lw_tools_npy_read(path, out, &reason);
  free(path);
  if (status == LW_OK) {
    cli_array_retype(out, case_type(&c->spec, stem, index));
    return true;
  }
  if (status == LW_STATUS_NOT_FOUND && c->spec.gen) {
    return verdict(c, CASE_SKIPPED, "its arrays are generated and %s_%zu.npy was not made", stem,
                   index);
  }
  return verdict(c, CASE_FAILED, "%s", reason.text);
}

/* Binds the model's dimensions to the shapes of in_<i>.npy. */
static bool set_shape(case_state *c, const char *name, const lw_tools_array *a) {
  char *text = cli_format("%s=", name);
  for (int d = 0; d < a->rank; d++) {
    char *more = cli_format("%s%s%lld", text, d > 0 ? "x" : "", (long long)a->dims[d]);
    free(text);
    text = more;
  }
  lw_status status = lw_options_set(c->options, "shape", text);
  free(text);
  return status == LW_OK || verdict(c, CASE_FAILED, "%s", lw_options_error(c->options));
}

/* A small input becomes a constant: what it holds may decide shapes. */
static bool set_value(case_state *c, const char *name, const lw_tools_array *a) {
  int64_t count = 1;
  for (int d = 0; d < a->rank; d++) count *= a->dims[d];
  bool is_float = a->dtype >= LW_DTYPE_F16;
  if (count > (is_float ? CASE_MAX_FLOATS : CASE_MAX_INTEGERS)) return true;
  char *text = cli_format("%s=", name);
  for (int64_t i = 0; i < count; i++) {
    char *more = cli_format("%s%s%.17g", text, i > 0 ? "," : "", lw_tools_array_get(a, i));
    free(text);
    text = more;
  }
  lw_status status = lw_options_set(c->options, "value", text);
  free(text);
  return status == LW_OK || verdict(c, CASE_FAILED, "%s", lw_options_error(c->options));
}

static bool read_inputs(case_state *c, const char *path) {
  lw_tools_summary *summary;
  lw_tools_reason reason;
  lw_status status = lw_tools_inspect(path, c->options, &summary, &reason);
  if (status != LW_OK) return verdict(c, CASE_FAILED, "%s", reason.text);
  c->input_count = summary->input_count;
  c->output_count = summary->output_count;
  c->inputs = cli_alloc(c->input_count, sizeof *c->inputs);
  c->names = cli_alloc(c->input_count, sizeof *c->names);
  c->wanted = cli_alloc(c->output_count, sizeof *c->wanted);
  bool ok = true;
  for (size_t i = 0; ok && i < c->input_count; i++) {
    ok = read_array(c, "in", i, &c->inputs[i]) &&
         set_shape(c, summary->inputs[i].name, &c->inputs[i]);
    c->names[i] = cli_format("%s", summary->inputs[i].name);
  }
  for (size_t i = 0; ok && i < c->output_count; i++) ok = read_array(c, "out", i, &c->wanted[i]);
  lw_tools_summary_destroy(summary);
  return ok;
}

/* ---- one run ----- */

static lw_status bind_all(case_state *c) {
  lw_status status = lw_context_create(c->model, &c->context);
  for (size_t i = 0; status == LW_OK && i < lw_model_input_count(c->model); i++) {
    size_t k = 0;
    cli_tensor t;
    while (k + 1 < c->input_count && strcmp(c->names[k], lw_model_input(c->model, i)->name) != 0)
      k++;
    cli_tensor_of(&c->inputs[k], &t);
    status = lw_context_bind_input(c->context, i, &t.tensor);
  }
  c->made_count = lw_model_output_count(c->model);
  c->outputs = cli_alloc(c->made_count, sizeof *c->outputs);
  for (size_t i = 0; status == LW_OK && i < c->made_count; i++) {
    const lw_tensor_info *info = lw_model_output(c->model, i);
    cli_tensor t;
    status = lw_tools_array_create(info->dtype, info->rank, info->dims, &c->outputs[i]);
    if (status != LW_OK) return status;
    memset(c->outputs[i].data != NULL ? c->outputs[i].data : &t, 0xa5, c->outputs[i].bytes);
    cli_tensor_of(&c->outputs[i], &t);
    status = lw_context_bind_output(c->context, i, &t.tensor);
  }
  return status;
}

/* Small inputs are constants only where the model cannot be loaded without. */
static lw_status load(case_state *c, const char *path) {
  lw_status status = lw_model_load(path, c->options, &c->model);
  if (status != LW_STATUS_UNSUPPORTED) return status;
  bool ok = true;
  for (size_t i = 0; ok && i < c->input_count; i++) ok = set_value(c, c->names[i], &c->inputs[i]);
  if (!ok) return status;
  lw_model *again = NULL;
  lw_status fixed = lw_model_load(path, c->options, &again);
  lw_model_destroy(fixed == LW_OK ? c->model : again);
  if (fixed == LW_OK) c->model = again;
  return fixed == LW_OK ? fixed : status;
}

/* Loads and runs; a clean refusal passes when the case says so. */
static bool load_and_run(case_state *c, const char *path) {
  c->started_s = cli_now_s();
  lw_status status = load(c, path);
  const char *message = lw_model_error(c->model);
  if (status == LW_OK) {
    status = bind_all(c);
    if (status == LW_OK) status = lw_context_run(c->context);
    message = lw_context_error(c->context);
  }
  double seconds = cli_now_s() - c->started_s;
  if (status == LW_OK) return check_time(c, seconds);
  if (c->spec.or_error && is_clean_refusal(status, message)) {
    verdict(c, CASE_PASSED, "refused: %s", message);
    return false;
  }
  return verdict(c, CASE_FAILED, "%s (%s)", message, lw_status_name(status));
}

/* ---- judging ----- */

static lw_tools_tolerance tolerance_of(const case_spec *spec, lw_dtype dtype) {
  lw_tools_tolerance t = {.rtol = spec->rtol, .atol = spec->atol, .nan_any = spec->nan_any};
  if (spec->has_tolerance) return t;
  bool narrow = lw_dtype_size_bytes(dtype) < 4;
  t.rtol = narrow ? CASE_NARROW_TOL : CASE_F32_RTOL;
  t.atol = narrow ? CASE_NARROW_TOL : CASE_F32_ATOL;
  return t;
}

/* Keeps the first |count| entries of |a| along |axis|. */
static void crop(lw_tools_array *a, int axis, int64_t count) {
  int64_t above = 1;
  size_t below = lw_dtype_size_bytes(a->dtype);
  for (int d = 0; d < axis; d++) above *= a->dims[d];
  for (int d = axis + 1; d < a->rank; d++) below *= (size_t)a->dims[d];
  size_t from = below * (size_t)a->dims[axis], to = below * (size_t)count;
  for (int64_t i = 1; i < above; i++)
    memmove((char *)a->data + (size_t)i * to, (char *)a->data + (size_t)i * from, to);
  a->dims[axis] = count;
  a->bytes = (size_t)above * to;
}

static bool judge_output(case_state *c, size_t i) {
  size_t k;
  int axis;
  if (lw_model_output_count_of(c->model, i, &k, &axis)) {
    int64_t count = (int64_t)lw_tools_array_get(&c->outputs[k], 0);
    bool fits = count >= 0 && axis < c->outputs[i].rank && count <= c->outputs[i].dims[axis];
    if (!fits) return verdict(c, CASE_FAILED, "output %zu: %lld entries", i, (long long)count);
    crop(&c->outputs[i], axis, count);
  }
  const lw_tools_array *got = &c->outputs[i], *want = &c->wanted[i];
  bool same = got->dtype == want->dtype && got->rank == want->rank;
  for (int d = 0; same && d < got->rank; d++) same = got->dims[d] == want->dims[d];
  if (!same) {
    char *is = cli_format("%s", cli_type_text(got->dtype, got->rank, got->dims));
    bool passed = verdict(c, CASE_FAILED, "output %zu is %s, expected is %s", i, is,
                          cli_type_text(want->dtype, want->rank, want->dims));
    free(is);
    return passed;
  }
  lw_tools_tolerance t = tolerance_of(&c->spec, got->dtype);
  lw_tools_difference d;
  lw_tools_compare(got, want, &t, &d);
  if (d.bad == 0) return true;
  return verdict(c, CASE_FAILED,
                 "output %zu: %lld of %lld elements differ, worst at %lld: %.9g instead of %.9g "
                 "(allowed %.3g)",
                 i, (long long)d.bad, (long long)d.count, (long long)d.worst_index, d.worst_got,
                 d.worst_want, d.worst_allowed);
}

static bool judge_kernels(case_state *c) {
  lw_stats stats;
  lw_context_stats(c->context, &stats);
  if (c->spec.kernels_max < 0 || !c->settings->fused) return true;
  uint64_t count = stats.kernels + stats.library_calls;
  if (count <= (uint64_t)c->spec.kernels_max) return true;
  return verdict(c, CASE_FAILED, "%llu kernels, at most %lld are allowed",
                 (unsigned long long)count, c->spec.kernels_max);
}

static case_state case_begin(const case_settings *settings, const char *folder);
static void case_end(case_state *c);
static bool run_model(case_state *c, const char *path);

/* The other case's outputs, made here and now, have the same bits. */
static bool judge_bits(case_state *c) {
  if (c->spec.bits_as == NULL || strcmp(c->spec.bits_as, c->spec.id) == 0) return true;
  size_t n = strlen(c->folder);
  while (n > 1 && c->folder[n - 1] == '/') n--;
  char *folder = cli_format("%.*s/../%s", (int)n, c->folder, c->spec.bits_as);
  char *path = cli_format("%s/model.onnx", folder);
  case_state other = case_begin(c->settings, folder);
  bool ok = case_read(folder, &other.spec, &other.outcome.reason);
  free(other.spec.bits_as); /* one step, not a chain */
  other.spec.bits_as = NULL;
  ok = ok && run_model(&other, path);
  if (!ok) {
    verdict(c, CASE_FAILED, "bits_as %s: %s", c->spec.bits_as,
            other.outcome.reason != NULL ? other.outcome.reason : "it cannot be read");
  } else if (other.output_count != c->output_count) {
    ok = verdict(c, CASE_FAILED, "bits_as %s: it has another number of outputs", c->spec.bits_as);
  }
  for (size_t i = 0; ok && i < c->output_count; i++) {
    const lw_tools_array *a = &c->outputs[i], *b = &other.outputs[i];
    bool same = a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
    if (!same) {
      ok = verdict(c, CASE_FAILED, "output %zu has other bits than that of %s", i, c->spec.bits_as);
    }
  }
  case_end(&other);
  free(other.outcome.reason);
  free(path);
  free(folder);
  return ok;
}

/* Inputs, run, comparison with the expected arrays. */
static bool run_model(case_state *c, const char *path) {
  if (!read_inputs(c, path) || !load_and_run(c, path)) return false;
  for (size_t i = 0; i < c->output_count; i++) {
    if (!judge_output(c, i)) return false;
  }
  return judge_kernels(c) && judge_bits(c);
}

static bool run_refused(case_state *c, const char *path) {
  c->started_s = cli_now_s();
  lw_status status = lw_model_load(path, c->options, &c->model);
  return judge_refusal(c, status, lw_model_error(c->model));
}

/* ---- life ----- */

static case_state case_begin(const case_settings *settings, const char *folder) {
  case_state c = {.settings = settings, .folder = folder};
  if (cli_options_make(settings->args, &c.options) != 0) {
    verdict(&c, CASE_FAILED, "the options do not fit");
  }
  return c;
}

static void free_arrays(lw_tools_array *arrays, size_t count) {
  for (size_t i = 0; arrays != NULL && i < count; i++) lw_tools_array_deinit(&arrays[i]);
  free(arrays);
}

static void case_end(case_state *c) {
  lw_context_destroy(c->context);
  lw_model_destroy(c->model);
  lw_options_destroy(c->options);
  for (size_t i = 0; c->names != NULL && i < c->input_count; i++) free(c->names[i]);
  free(c->names);
  free_arrays(c->inputs, c->input_count);
  free_arrays(c->outputs, c->made_count);
  free_arrays(c->wanted, c->output_count);
  case_deinit(&c->spec);
}

case_outcome case_run(const case_settings *settings, const char *folder) {
  double start = cli_now_s();
  case_state c = case_begin(settings, folder);
  char *path = cli_format("%s/model.onnx", folder), *problem = NULL;
  bool ok = c.options != NULL;
  if (ok && !case_read(folder, &c.spec, &problem)) ok = verdict(&c, CASE_FAILED, "%s", problem);
  if (ok && access(path, R_OK) != 0) {
    ok = verdict(&c, CASE_FAILED, "there is no readable %s", path);
  }
  if (ok) ok = c.spec.expect_error ? run_refused(&c, path) : run_model(&c, path);
  if (ok && c.spec.every_prefix) ok = check_prefixes(&c, path);
  if (c.outcome.reason == NULL) verdict(&c, CASE_PASSED, "%s", "");
  free(problem);
  free(path);
  case_end(&c);
  c.outcome.seconds = cli_now_s() - start;
  return c.outcome;
}
