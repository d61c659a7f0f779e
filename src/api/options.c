/* options.c: the table of options: one row and one reader each. */
#include "api/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTION_MAX_THREADS 4096
#define OPTION_MAX_EXTENT INT32_MAX
#define OPTION_MAX_RUNGS 256 /* of one ladder */
#define OPTION_MAX_SHAPES 65536
#define OPTION_SHAPES 16

typedef struct option_row option_row;
/* Reads |value| into the options; false leaves them as they are: the value does not fit. */
typedef lw_status (*option_reader)(lw_options *options, const option_row *row, const char *value,
                                   bool *out_fits);
struct option_row {
  const char *name;
  option_reader read;
  size_t offset;       /* of the member, where the reader serves several */
  const char *allowed; /* in words, for messages */
  /* Says where to run, build or look, not what is compiled: no part of a plan's key. */
  bool aside;
};

static void *option_member(lw_options *options, const option_row *row) {
  return (char *)options + row->offset;
}

static lw_status option_keep(lw_options *options, const char *value, const char **out) {
  return lw__arena_strndup(&options->arena, value, strlen(value), out);
}

/* ---- readers ----- */

static lw_status read_text(lw_options *options, const option_row *row, const char *value,
                           bool *out_fits) {
  const char **member = option_member(options, row);
  *out_fits = true;
  if (value[0] != '\0') return option_keep(options, value, member);
  *member = NULL;
  return LW_OK;
}

/* An empty list of folders is not the same as none given: nothing is searched. */
static lw_status read_folders(lw_options *options, const option_row *row, const char *value,
                              bool *out_fits) {
  *out_fits = true;
  return option_keep(options, value, option_member(options, row));
}

static lw_status read_switch(lw_options *options, const option_row *row, const char *value,
                             bool *out_fits) {
  bool on = strcmp(value, "on") == 0;
  *out_fits = on || strcmp(value, "off") == 0;
  if (*out_fits) *(bool *)option_member(options, row) = on;
  return LW_OK;
}

static bool parse_number(const char *text, int64_t max, int64_t *out) {
  if (text[0] < '0' || text[0] > '9') return false;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno != 0 || *end != '\0' || value > max) return false;
  *out = value;
  return true;
}

static lw_status read_device(lw_options *options, const option_row *row, const char *value,
                             bool *out_fits) {
  static const char *const names[] = {"auto", "cpu", "cuda", "null"};
  int64_t index;
  *out_fits = strncmp(value, "cuda:", 5) == 0 && parse_number(value + 5, 1023, &index);
  for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++) *out_fits |= strcmp(value, names[i]) == 0;
  if (!*out_fits) return LW_OK;
  return option_keep(options, value, option_member(options, row));
}

/* "sm_90" is nearly always meant to be "sm_90a". */
static void suggest_target(lw_options *options, const option_row *row, const char *value,
                           const char *profile) {
  char specific[16];
  int length = snprintf(specific, sizeof specific, "%sa", profile);
  if (length < 0 || (size_t)length >= sizeof specific) return;
  if (lw__device_profile_find(specific) == NULL) return;
  lw__text_add(&options->error, "option '%s' cannot be '%s'; did you mean 'cuda:%s'? It takes %s",
               row->name, value, specific, row->allowed);
}

static lw_status read_target(lw_options *options, const option_row *row, const char *value,
                             bool *out_fits) {
  const char *profile = strncmp(value, "cuda:", 5) == 0 ? value + 5 : value;
  *out_fits = lw__device_profile_find(profile) != NULL;
  if (!*out_fits) {
    suggest_target(options, row, value, profile);
    return LW_OK;
  }
  return option_keep(options, profile, option_member(options, row));
}

static lw_status read_policy(lw_options *options, const option_row *row, const char *value,
                             bool *out_fits) {
  const lw_resource_policy *policy = lw__resource_policy_find(value);
  *out_fits = policy != NULL;
  if (*out_fits) *(const lw_resource_policy **)option_member(options, row) = policy;
  return LW_OK;
}

static lw_status read_threads(lw_options *options, const option_row *row, const char *value,
                              bool *out_fits) {
  int64_t threads = 0;
  *out_fits = parse_number(value, OPTION_MAX_THREADS, &threads);
  if (*out_fits) *(uint32_t *)option_member(options, row) = (uint32_t)threads;
  return LW_OK;
}

/* "0", "500M": a number and K, M, G or T for powers of 1024. */
static lw_status read_size(lw_options *options, const option_row *row, const char *value,
                           bool *out_fits) {
  uint64_t bytes = 0;
  *out_fits = lw__options_parse_size(value, &bytes);
  if (*out_fits) *(uint64_t *)option_member(options, row) = bytes;
  return LW_OK;
}

bool lw__options_parse_size(const char *text, uint64_t *out_bytes) {
  static const char units[] = "KMGT";
  if (text[0] < '0' || text[0] > '9') return false;
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  const char *unit = *end == '\0' ? NULL : strchr(units, *end);
  if (errno != 0 || (*end != '\0' && (unit == NULL || end[1] != '\0'))) return false;
  int shift = unit == NULL ? 0 : 10 * (int)(unit - units + 1);
  if (value > (uint64_t)INT64_MAX >> shift) return false;
  *out_bytes = (uint64_t)value << shift;
  return true;
}

static lw_status read_streams(lw_options *options, const option_row *row, const char *value,
                              bool *out_fits) {
  int64_t streams = LW_SCHED_DAG;
  *out_fits = strcmp(value, "dag") == 0 || parse_number(value, LW_PLAN_MAX_LANES, &streams);
  if (*out_fits) *(uint32_t *)option_member(options, row) = (uint32_t)streams;
  return LW_OK;
}

/* "f" and hexadecimal digits, as the fusion report prints them. */
static bool is_fusion_id(lw_str id) {
  if (id.len < 2 || id.len > 19 || id.ptr[0] != 'f') return false;
  for (size_t i = 1; i < id.len; i++) {
    if (memchr("0123456789abcdef", id.ptr[i], 16) == NULL) return false;
  }
  return true;
}

static bool is_dump_step(lw_str text) {
  return text.len > 6 && strncmp(text.ptr, "after:", 6) == 0;
}

/* The pieces between commas into a vector of strings, all or none. */
static lw_status read_list(lw_options *options, const option_row *row, const char *value,
                           bool *out_fits) {
  lw_name_list *list = option_member(options, row);
  bool ids = row->offset != offsetof(lw_options, dump_steps);
  uint32_t count = list->count;
  *out_fits = true;
  for (const char *at = value;; at++) {
    lw_str piece = lw__str(at, strcspn(at, ","));
    *out_fits = ids ? is_fusion_id(piece) : is_dump_step(piece);
    if (!*out_fits) break;
    const char *copy;
    size_t skip = ids ? 0 : strlen("after:");
    LW_TRY(lw__arena_strndup(&options->arena, piece.ptr + skip, piece.len - skip, &copy));
    LW_TRY(lw_vec_push(list, copy));
    at += piece.len;
    if (*at == '\0') return LW_OK;
  }
  list->count = count;
  return LW_OK;
}

/* The name before the last '=' (names may hold one), and what follows. */
static bool split_named(const char *value, size_t *out_length, const char **out_rest) {
  const char *equal = strrchr(value, '=');
  if (equal == NULL || equal == value) return false;
  *out_length = (size_t)(equal - value);
  *out_rest = equal + 1;
  return true;
}

/* The name has one meaning at most: the last one given. */
static void forget_dim(lw_options *options, const char *name) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < options->dims.count; i++) {
    if (strcmp(options->dims.data[i].name, name) == 0) continue;
    options->dims.data[kept++] = options->dims.data[i];
  }
  options->dims.count = kept;
  kept = 0;
  for (uint32_t i = 0; i < options->ladders.count; i++) {
    if (strcmp(options->ladders.data[i].name, name) == 0) continue;
    options->ladders.data[kept++] = options->ladders.data[i];
  }
  options->ladders.count = kept;
}

/* "8" or "8:64", which is 8 and its doubles below 64, and 64. */
static bool parse_rungs(const char *text, size_t length, int64_t *sizes, uint32_t *count) {
  char buffer[48];
  int64_t lo, hi;
  if (length >= sizeof buffer) return false;
  memcpy(buffer, text, length);
  buffer[length] = '\0';
  char *colon = strchr(buffer, ':');
  if (colon != NULL) *colon = '\0';
  if (!parse_number(buffer, OPTION_MAX_EXTENT, &lo) || lo < 1) return false;
  hi = lo;
  if (colon != NULL && !parse_number(colon + 1, OPTION_MAX_EXTENT, &hi)) return false;
  if (hi < lo) return false;
  for (int64_t size = lo; size < hi && *count < OPTION_MAX_RUNGS; size *= 2) {
    sizes[(*count)++] = size;
  }
  if (*count >= OPTION_MAX_RUNGS) return false;
  sizes[(*count)++] = hi;
  return true;
}

static int compare_rungs(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static lw_status read_ladder(lw_options *options, const char *rungs, lw_ladder *ladder,
                             bool *out_fits) {
  int64_t sizes[OPTION_MAX_RUNGS];
  uint32_t count = 0, kept = 0;
  ladder->automatic = strcmp(rungs, "auto") == 0;
  for (const char *at = rungs; !ladder->automatic; at++) {
    size_t length = strcspn(at, ",");
    *out_fits = parse_rungs(at, length, sizes, &count);
    if (!*out_fits) return LW_OK;
    at += length;
    if (*at == '\0') break;
  }
  qsort(sizes, count, sizeof *sizes, compare_rungs);
  for (uint32_t i = 0; i < count; i++) {
    if (kept == 0 || sizes[kept - 1] != sizes[i]) sizes[kept++] = sizes[i];
  }
  *out_fits = true;
  ladder->count = kept;
  int64_t *copy;
  LW_TRY(lw__arena_alloc(&options->arena, kept, sizeof *copy, &copy));
  if (kept > 0) memcpy(copy, sizes, kept * sizeof *copy);
  ladder->sizes = copy;
  return LW_OK;
}

static lw_status read_dim(lw_options *options, const option_row *row, const char *value,
                          bool *out_fits) {
  (void)row;
  size_t length;
  const char *rest, *name;
  lw_named_dim dim;
  lw_ladder ladder = {0};
  *out_fits = false;
  if (!split_named(value, &length, &rest)) return LW_OK;
  bool number = parse_number(rest, OPTION_MAX_EXTENT, &dim.value);
  *out_fits = number;
  if (!number) LW_TRY(read_ladder(options, rest, &ladder, out_fits));
  if (!*out_fits) return LW_OK;
  LW_TRY(lw__arena_strndup(&options->arena, value, length, &name));
  dim.name = ladder.name = name;
  forget_dim(options, name);
  return number ? lw_vec_push(&options->dims, dim) : lw_vec_push(&options->ladders, ladder);
}

static lw_status read_max_shapes(lw_options *options, const option_row *row, const char *value,
                                 bool *out_fits) {
  int64_t most = 0;
  *out_fits = parse_number(value, OPTION_MAX_SHAPES, &most) && most >= 1;
  if (*out_fits) *(uint32_t *)option_member(options, row) = (uint32_t)most;
  return LW_OK;
}

/* "2x3x64", "2,3,64", "[2, 3, 64]": numbers with one separator between two of them. */
bool lw__options_parse_shape(const char *text, int *out_rank, int64_t *out_dims) {
  int rank = 0;
  text += strspn(text, " ");
  bool bracket = *text == '[';
  if (bracket) text += 1 + strspn(text + 1, " ");
  while (*text != '\0' && *text != ']') {
    if (rank > 0) {
      if (*text != 'x' && *text != 'X' && *text != ',') return false;
      text += 1 + strspn(text + 1, " ");
    }
    if (*text < '0' || *text > '9' || rank == LW_MAX_RANK) return false;
    int64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
      value = value * 10 + (*text - '0');
      if (value > OPTION_MAX_EXTENT) return false;
    }
    out_dims[rank++] = value;
    text += strspn(text, " ");
  }
  if (bracket != (*text == ']')) return false;
  if (bracket) text += 1 + strspn(text + 1, " ");
  *out_rank = rank;
  return *text == '\0';
}

static lw_status read_shape(lw_options *options, const option_row *row, const char *value,
                            bool *out_fits) {
  (void)row;
  size_t length;
  const char *rest;
  lw_named_shape shape = {0};
  *out_fits =
      split_named(value, &length, &rest) && lw__options_parse_shape(rest, &shape.rank, shape.dims);
  if (!*out_fits) return LW_OK;
  LW_TRY(lw__arena_strndup(&options->arena, value, length, &shape.name));
  for (uint32_t i = 0; i < options->shapes.count; i++) {
    if (strcmp(options->shapes.data[i].name, shape.name) == 0) {
      options->shapes.data[i] = shape;
      return LW_OK;
    }
  }
  return lw_vec_push(&options->shapes, shape);
}

static lw_status read_state(lw_options *options, const option_row *row, const char *value,
                            bool *out_fits) {
  (void)row;
  size_t length;
  const char *rest;
  lw_named_state state;
  *out_fits = true;
  if (strcmp(value, "auto") == 0) {
    options->find_states = true;
    return LW_OK;
  }
  *out_fits = split_named(value, &length, &rest) && rest[0] != '\0';
  if (!*out_fits) return LW_OK;
  LW_TRY(lw__arena_strndup(&options->arena, value, length, &state.input));
  LW_TRY(option_keep(options, rest, &state.output));
  return lw_vec_push(&options->states, state);
}

static lw_status read_state_rows(lw_options *options, const option_row *row, const char *value,
                                 bool *out_fits) {
  int64_t rows = 0;
  *out_fits = parse_number(value, OPTION_MAX_EXTENT, &rows);
  if (*out_fits) *(uint32_t *)option_member(options, row) = (uint32_t)rows;
  return LW_OK;
}

/* One number behind |*text|; a float's integer is what remains of it, or an end of the range. */
static bool parse_element(const char **text, int64_t *out_integer, double *out_float) {
  char *end, *whole;
  errno = 0;
  *out_float = strtod(*text, &end);
  if (end == *text) return false;
  errno = 0;
  *out_integer = (int64_t)strtoll(*text, &whole, 10);
  if (whole == end && errno == ERANGE && **text != '-') {
    *out_integer = (int64_t)strtoull(*text, &whole, 10);
  } else if (whole != end) {
    bool fits = *out_float >= -0x1p63 && *out_float < 0x1p63;
    *out_integer = fits ? (int64_t)*out_float : *out_float > 0 ? INT64_MAX : INT64_MIN;
  }
  *text = end + strspn(end, " ");
  return true;
}

static bool parse_elements(const char *text, int64_t *integers, double *floats,
                           uint32_t *out_count) {
  uint32_t count = 0;
  text += strspn(text, " ");
  while (*text != '\0') {
    if (count > 0 && *text++ != ',') return false;
    if (!parse_element(&text, &integers[count], &floats[count])) return false;
    count++;
  }
  *out_count = count;
  return true;
}

static lw_status read_value(lw_options *options, const option_row *row, const char *value,
                            bool *out_fits) {
  (void)row;
  size_t length;
  const char *rest;
  int64_t *integers;
  double *floats;
  lw_named_value named;
  *out_fits = split_named(value, &length, &rest);
  if (!*out_fits) return LW_OK;
  uint32_t most = 1;
  for (const char *at = rest; *at != '\0'; at++) most += *at == ',';
  LW_TRY(lw__arena_alloc(&options->arena, most, sizeof *integers, &integers));
  LW_TRY(lw__arena_alloc(&options->arena, most, sizeof *floats, &floats));
  *out_fits = parse_elements(rest, integers, floats, &named.count);
  if (!*out_fits) return LW_OK;
  named.integers = integers;
  named.floats = floats;
  LW_TRY(lw__arena_strndup(&options->arena, value, length, &named.name));
  for (uint32_t i = 0; i < options->values.count; i++) {
    if (strcmp(options->values.data[i].name, named.name) != 0) continue;
    options->values.data[i] = named;
    return LW_OK;
  }
  return lw_vec_push(&options->values, named);
}

/* ---- the table ----- */

#define MEMBER(m) offsetof(lw_options, m)
static const option_row option_rows[] = {
    {"device", read_device, MEMBER(device), "auto, cpu, cuda, cuda:N or null", true},
    {"target", read_target, MEMBER(target),
     "cpu, cuda:sm_80, cuda:sm_86, cuda:sm_89, cuda:sm_90a or cuda:sm_100", true},
    {"fuse", read_switch, MEMBER(fuse), "on or off", false},
    {"force", read_list, MEMBER(force), "fusion ids (f and hexadecimal digits), comma separated",
     false},
    {"forbid", read_list, MEMBER(forbid), "fusion ids (f and hexadecimal digits), comma separated",
     false},
    {"policy", read_policy, MEMBER(policy), "conservative, classic or opt-in", false},
    {"threads", read_threads, MEMBER(threads), "a number from 0 (all cores) to 4096", true},
    {"streams", read_streams, MEMBER(streams),
     "a number from 0 (automatic) to 8, or dag (ordered by dependences alone)", false},
    {"graphs", read_switch, MEMBER(graphs), "on or off", true},
    {"early", read_switch, MEMBER(early_start), "on or off", false},
    {"dim", read_dim, 0,
     "NAME=N, the name of a symbolic dimension and its extent, or NAME=1,2,8:64 or NAME=auto, the "
     "sizes it is compiled for",
     false},
    {"max_shapes", read_max_shapes, MEMBER(max_shapes), "a number from 1 to 65536", true},
    {"shape", read_shape, 0, "INPUT=2x3x64x64, the name of an input and its shape", false},
    {"state", read_state, 0,
     "INPUT=OUTPUT, which replace each other, or auto: past... and present... of one name", false},
    {"state_rows", read_state_rows, MEMBER(state_rows), "a number of rows", true},
    {"value", read_value, 0, "INPUT=2,3,-1.5, the name of an input and its elements", false},
    {"channels_last", read_switch, MEMBER(channels_last), "on or off", false},
    {"cache", read_text, MEMBER(cache_folder), "a folder, or nothing", true},
    {"cc", read_text, MEMBER(cc), "a C compiler", true},
    {"path", read_folders, MEMBER(path), "folders, colon separated", true},
    {"nvrtc", read_text, MEMBER(nvrtc), "a path", true},
    {"cuda", read_text, MEMBER(cuda), "a path", true},
    {"cupti", read_text, MEMBER(cupti), "a path", true},
    {"dump", read_list, MEMBER(dump_steps), "after:STEP, comma separated", true},
    {"compile_only", read_switch, MEMBER(compile_only), "on or off", true},
    {"plans", read_switch, MEMBER(plans), "on or off", true},
    {"cache_limit", read_size, MEMBER(cache_limit), "a size: 500M, 2G", true},
};

static const option_row *option_find(const char *name) {
  for (size_t i = 0; i < LW_ARRAY_COUNT(option_rows); i++) {
    if (strcmp(option_rows[i].name, name) == 0) return &option_rows[i];
  }
  return NULL;
}

static lw_status option_unknown(lw_options *options, const char *name) {
  lw__text_add(&options->error, "there is no option '%s'; there are ", name);
  for (size_t i = 0; i < LW_ARRAY_COUNT(option_rows); i++) {
    lw__text_add(&options->error, i == 0 ? "%s" : ", %s", option_rows[i].name);
  }
  return LW_STATUS_USAGE;
}

static lw_status option_remember(lw_options *options, const option_row *row, const char *value) {
  lw_option_set set = {.name = row->name, .aside = row->aside};
  LW_TRY(option_keep(options, value, &set.value));
  return lw_vec_push(&options->history, set);
}

lw_hash lw__options_hash(const lw_options *options, lw_hash seed) {
  for (uint32_t i = 0; i < options->history.count; i++) {
    const lw_option_set *set = &options->history.data[i];
    if (set->aside) continue;
    seed = lw__hash_bytes(set->name, strlen(set->name) + 1, seed);
    seed = lw__hash_bytes(set->value, strlen(set->value) + 1, seed);
  }
  return seed;
}

const char *lw__options_first(const lw_options *options) {
  for (uint32_t i = 0; i < options->history.count; i++) {
    if (!options->history.data[i].aside) return options->history.data[i].name;
  }
  return NULL;
}

lw_status lw__options_clone(const lw_options *options, lw_options **out) {
  LW_TRY(lw_options_create(out));
  lw_status status = LW_OK;
  for (uint32_t i = 0; i < options->history.count && status == LW_OK; i++) {
    status = lw_options_set(*out, options->history.data[i].name, options->history.data[i].value);
  }
  if (status == LW_OK) return LW_OK;
  lw_options_destroy(*out);
  *out = NULL;
  return status;
}

lw_status lw_options_set(lw_options *options, const char *name, const char *value) {
  if (options == NULL) return LW_STATUS_USAGE;
  lw__text_clear(&options->error);
  if (name == NULL || value == NULL) {
    lw__text_add(&options->error, "name and value must not be NULL");
    return LW_STATUS_USAGE;
  }
  const option_row *row = option_find(name);
  if (row == NULL) return option_unknown(options, name);
  bool fits = false;
  LW_TRY(row->read(options, row, value, &fits));
  if (fits) return option_remember(options, row, value);
  if (options->error.len > 0) return LW_STATUS_USAGE; /* the reader had more to say */
  lw__text_add(&options->error, "option '%s' cannot be '%s'; it takes %s", name, value,
               row->allowed);
  return LW_STATUS_USAGE;
}

lw_status lw_options_create(lw_options **out_options) {
  if (out_options == NULL) return LW_STATUS_USAGE;
  *out_options = NULL;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_options)));
  lw_options *options = memory;
  *options = (lw_options){
      .device = "auto", .fuse = true, .graphs = true, .max_shapes = OPTION_SHAPES, .plans = true};
  *out_options = options;
  return LW_OK;
}

void lw_options_destroy(lw_options *options) {
  if (options == NULL) return;
  lw_vec_free(&options->force);
  lw_vec_free(&options->forbid);
  lw_vec_free(&options->dims);
  lw_vec_free(&options->ladders);
  lw_vec_free(&options->history);
  lw_vec_free(&options->shapes);
  lw_vec_free(&options->states);
  lw_vec_free(&options->values);
  lw_vec_free(&options->dump_steps);
  lw__text_deinit(&options->error);
  lw__arena_deinit(&options->arena);
  lw__mem_free(options);
}

const char *lw_options_error(const lw_options *options) {
  return options == NULL ? "the options object is NULL" : lw__text_str(&options->error);
}
