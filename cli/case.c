/* case.c: reading case.json: every key is known, and everything else is an error. */
#include "case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- one key, one reader ----- */

typedef bool (*key_reader)(case_spec *spec, const json_t *value);

static bool read_text_key(case_spec *spec, const json_t *value) {
  (void)spec;
  return json_is_string(value);
}

static bool read_id(case_spec *spec, const json_t *value) {
  if (!json_is_string(value)) return false;
  free(spec->id);
  spec->id = cli_format("%s", json_string_value(value));
  return true;
}

static bool read_expect(case_spec *spec, const json_t *value) {
  const char *text = json_string_value(value);
  if (text == NULL) return false;
  spec->expect_error = strcmp(text, "error") == 0;
  return spec->expect_error || strcmp(text, "ok") == 0;
}

static bool read_tolerance(const json_t *value, double *out) {
  *out = json_number_value(value);
  return json_is_number(value) && *out >= 0;
}

static bool read_rtol(case_spec *spec, const json_t *value) {
  spec->has_tolerance = true;
  return read_tolerance(value, &spec->rtol);
}

static bool read_atol(case_spec *spec, const json_t *value) {
  spec->has_tolerance = true;
  return read_tolerance(value, &spec->atol);
}

static bool read_kernels_max(case_spec *spec, const json_t *value) {
  spec->kernels_max = json_integer_value(value);
  return json_is_integer(value) && spec->kernels_max >= 0;
}

static bool read_compile_s_max(case_spec *spec, const json_t *value) {
  return read_tolerance(value, &spec->compile_s_max);
}

static bool read_types(case_spec *spec, const json_t *value) {
  (void)spec;
  const char *key;
  json_t *type;
  if (!json_is_object(value)) return false;
  json_object_foreach((json_t *)value, key, type) {
    bool known = strncmp(key, "in_", 3) == 0 || strncmp(key, "out_", 4) == 0;
    if (!known || !json_is_string(type)) return false;
  }
  return true;
}

static bool read_nan(case_spec *spec, const json_t *value) {
  const char *text = json_string_value(value);
  spec->nan_any = text != NULL && strcmp(text, "any") == 0;
  return spec->nan_any;
}

static bool read_or_error(case_spec *spec, const json_t *value) {
  spec->or_error = json_is_true(value);
  return json_is_boolean(value);
}

static bool read_every_prefix(case_spec *spec, const json_t *value) {
  spec->every_prefix = json_is_true(value);
  return json_is_boolean(value);
}

static bool read_bits_as(case_spec *spec, const json_t *value) {
  const char *text = json_string_value(value);
  if (text == NULL || text[0] == '\0' || strchr(text, '/') != NULL) return false;
  free(spec->bits_as);
  spec->bits_as = cli_format("%s", text);
  return true;
}

static bool read_gen(case_spec *spec, const json_t *value) {
  spec->gen = true;
  return json_is_object(value);
}

static const struct {
  const char *key;
  key_reader read;
} case_keys[] = {
    {"id", read_id},
    {"note", read_text_key},
    {"expect", read_expect},
    {"rtol", read_rtol},
    {"atol", read_atol},
    {"kernels_max", read_kernels_max},
    {"compile_s_max", read_compile_s_max},
    {"types", read_types},
    {"nan", read_nan},
    {"or_error", read_or_error},
    {"bits_as", read_bits_as},
    {"gen", read_gen},
    {"every_prefix", read_every_prefix},
};

static bool read_key(case_spec *spec, const char *key, const json_t *value, char **out_problem) {
  for (size_t i = 0; i < CLI_COUNT(case_keys); i++) {
    if (strcmp(case_keys[i].key, key) != 0) continue;
    if (case_keys[i].read(spec, value)) return true;
    *out_problem = cli_format("case.json: the value of \"%s\" is none it can have", key);
    return false;
  }
  *out_problem = cli_format("case.json: unknown key \"%s\"", key);
  return false;
}

/* ---- the file ----- */

static const char *base_name(const char *folder) {
  size_t n = strlen(folder);
  while (n > 1 && folder[n - 1] == '/') n--;
  size_t begin = n;
  while (begin > 0 && folder[begin - 1] != '/') begin--;
  return folder + begin;
}

static char *folder_id(const char *folder) {
  const char *name = base_name(folder);
  size_t n = strcspn(name, "/");
  return cli_format("%.*s", (int)n, name);
}

bool case_read(const char *folder, case_spec *out_spec, char **out_problem) {
  *out_spec = (case_spec){.id = folder_id(folder), .kernels_max = -1, .compile_s_max = -1};
  *out_problem = NULL;
  char *path = cli_format("%s/case.json", folder);
  struct stat info;
  bool there = stat(path, &info) == 0;
  json_error_t error;
  out_spec->root = there ? json_load_file(path, JSON_REJECT_DUPLICATES, &error) : NULL;
  free(path);
  if (!there) return true;
  out_spec->has_json = true;
  if (!json_is_object(out_spec->root)) {
    *out_problem =
        cli_format("case.json: %s", out_spec->root == NULL ? error.text : "it is no JSON object");
    return false;
  }
  const char *key;
  json_t *value;
  json_object_foreach(out_spec->root, key, value) {
    if (!read_key(out_spec, key, value, out_problem)) return false;
  }
  return true;
}

void case_deinit(case_spec *spec) {
  free(spec->id);
  free(spec->bits_as);
  json_decref(spec->root);
  *spec = (case_spec){0};
}

lw_dtype case_type(const case_spec *spec, const char *stem, size_t index) {
  static const struct {
    const char *name;
    lw_dtype dtype;
  } types[] = {{"bfloat16", LW_DTYPE_BF16},
               {"float8e4m3fn", LW_DTYPE_F8E4M3},
               {"float8e5m2", LW_DTYPE_F8E5M2}};
  char *key = cli_format("%s_%zu", stem, index);
  const json_t *object = json_object_get(spec->root, "types");
  const char *name = json_string_value(json_object_get(object, key));
  free(key);
  if (name == NULL) return LW_DTYPE_NONE;
  for (size_t i = 0; i < CLI_COUNT(types); i++) {
    if (strcmp(types[i].name, name) == 0) return types[i].dtype;
  }
  return LW_DTYPE_COUNT;
}
