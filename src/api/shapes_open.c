/* shapes_open.c: which dimensions of a model are open, whether their ladders may be used, and what
 * is compiled at once. */
#include <string.h>

#include "api/shapes.h"

/* What a symbol without a number is supposed to be, where only its kind of effect matters. */
#define SHAPES_PROBE 16

/* ---- ladders ----- */

static int64_t ladder_top(const lw_ladder *ladder) {
  return ladder != NULL && ladder->count > 0 ? ladder->sizes[ladder->count - 1] : SHAPES_PROBE;
}

static bool ladder_is_closed(const lw_ladder *ladder) {
  return ladder != NULL && !ladder->automatic;
}

static lw_status refuse_ladder(lw_model *model, uint32_t s, const char *why) {
  lw_open_symbol *symbol = &model->shapes->symbols[s];
  symbol->ladder = NULL;
  LW_TRY(lw__arena_strndup(&model->shapes->arena, why, strlen(why), &symbol->refusal));
  lw_text where = {0};
  lw__text_add(&where, "option dim, '%s'", symbol->name);
  lw__note(&model->diag, LW_SEVERITY_WARNING, lw__text_str(&where),
           "no sizes are shared, every one is compiled by itself: %s", why);
  lw__text_deinit(&where);
  return LW_OK;
}

/* The same proof holds or fails at every size from 2 on, so one size is asked at loading. Numbers
 * that the model cannot have are left to the run that asks for them. */
static lw_status check_ladders(lw_model *model) {
  const lw_shapes *shapes = model->shapes;
  int64_t sizes[LW_SHAPES_MAX_SYMBOLS];
  lw_graph bound;
  lw_diag diag = {0};
  lw_arena arena = {0};
  for (uint32_t s = 0; s < shapes->symbol_count; s++) {
    sizes[s] = lw__max_i64(2, ladder_top(shapes->symbols[s].ladder));
  }
  lw_status status = lw__shapes_graph(model, sizes, &diag, &bound);
  bool possible = status == LW_OK;
  if (status != LW_STATUS_OUT_OF_MEMORY) status = LW_OK;
  for (uint32_t s = 0; s < shapes->symbol_count && possible && status == LW_OK; s++) {
    if (shapes->symbols[s].ladder == NULL) continue;
    lw_rows_proof proof;
    status = lw__shapes_prove(model, &bound, sizes, s, &arena, &proof);
    if (status == LW_OK && !proof.holds) {
      status = refuse_ladder(model, s, lw__text_str(&proof.refusal));
    }
    lw__rows_proof_deinit(&proof);
  }
  if (possible) lw__graph_deinit(&bound);
  lw__arena_deinit(&arena);
  lw__diag_deinit(&diag);
  return status;
}

/* ---- opening ----- */

static lw_status shapes_new(const lw_options *options, lw_shapes **out) {
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_shapes)));
  lw_shapes *shapes = memory;
  memset(shapes, 0, sizeof *shapes);
  if (pthread_mutex_init(&shapes->lock, NULL) != 0) {
    lw__mem_free(shapes);
    return LW_STATUS_OUT_OF_MEMORY;
  }
  if (pthread_cond_init(&shapes->changed, NULL) != 0) {
    (void)pthread_mutex_destroy(&shapes->lock);
    lw__mem_free(shapes);
    return LW_STATUS_OUT_OF_MEMORY;
  }
  shapes->max_variants = options->max_shapes;
  lw_status status = lw__options_clone(options, &shapes->options);
  if (status == LW_OK) {
    *out = shapes;
  } else {
    lw__shapes_destroy(shapes);
  }
  return status;
}

static lw_status find_symbol(lw_shapes *shapes, const char *name, uint32_t *out) {
  for (uint32_t s = 0; s < shapes->symbol_count; s++) {
    if (strcmp(shapes->symbols[s].name, name) != 0) continue;
    *out = s;
    return LW_OK;
  }
  if (shapes->symbol_count == LW_SHAPES_MAX_SYMBOLS) return LW_STATUS_UNSUPPORTED;
  lw_open_symbol *symbol = &shapes->symbols[shapes->symbol_count];
  *symbol = (lw_open_symbol){0};
  LW_TRY(lw__arena_strndup(&shapes->arena, name, strlen(name), &symbol->name));
  for (uint32_t i = 0; i < shapes->options->ladders.count; i++) {
    const lw_ladder *ladder = &shapes->options->ladders.data[i];
    if (strcmp(ladder->name, name) == 0) symbol->ladder = ladder;
  }
  *out = shapes->symbol_count++;
  return LW_OK;
}

/* Every ladder is of a symbol that there is. */
static lw_status check_names(const lw_shapes *shapes, lw_diag *diag) {
  for (uint32_t i = 0; i < shapes->options->ladders.count; i++) {
    const char *name = shapes->options->ladders.data[i].name;
    bool found = false;
    for (uint32_t s = 0; s < shapes->symbol_count; s++) {
      found |= strcmp(shapes->symbols[s].name, name) == 0;
    }
    if (found) continue;
    return lw__fail(diag, LW_STATUS_USAGE, "option dim",
                    "the model has no open dimension of the name '%s'", name);
  }
  return LW_OK;
}

/* The sizes of all ladders, largest first, in turn; false after the last. */
static bool next_rung(const lw_shapes *shapes, uint32_t *rung) {
  for (uint32_t s = 0; s < shapes->symbol_count; s++) {
    if (rung[s]-- > 0) return true;
    rung[s] = shapes->symbols[s].ladder->count - 1;
  }
  return false;
}

/* The largest sizes are compiled when the model is loaded: errors come early, and what working
 * memory there must be is known. A model that is only compiled is compiled for all its sizes. */
static lw_status compile_ladders(lw_model *model) {
  const lw_shapes *shapes = model->shapes;
  bool all = shapes->options->compile_only;
  uint32_t rung[LW_SHAPES_MAX_SYMBOLS], done = 0;
  for (uint32_t s = 0; s < shapes->symbol_count; s++) {
    if (ladder_is_closed(shapes->symbols[s].ladder)) {
      rung[s] = shapes->symbols[s].ladder->count - 1;
    } else if (all) {
      return lw__fail(&model->diag, LW_STATUS_USAGE, "symbolic dimensions",
                      "numbers are needed for '%s'", shapes->symbols[s].name);
    } else {
      return LW_OK;
    }
  }
  do {
    int64_t sizes[LW_SHAPES_MAX_SYMBOLS];
    lw_variant *v;
    for (uint32_t s = 0; s < shapes->symbol_count; s++) {
      sizes[s] = shapes->symbols[s].ladder->sizes[rung[s]];
    }
    LW_TRY(lw__shapes_acquire(model, sizes, &model->diag, &v));
    lw__shapes_release(model, v);
  } while (all && ++done < shapes->max_variants && next_rung(shapes, rung));
  return LW_OK;
}

bool lw__shapes_are_open(const lw_graph *graph) {
  for (uint32_t i = 0; i < graph->inputs.count; i++) {
    if (!lw__shape_is_static(&lw__value(graph, graph->inputs.data[i])->shape)) return true;
  }
  return false;
}

/* Dims of inputs as symbols; expressions are checked when there are numbers. */
static lw_status take_inputs(lw_model *model) {
  lw_shapes *shapes = model->shapes;
  const lw_graph *g = &model->graph;
  for (uint32_t i = 0; i < g->inputs.count; i++) {
    const lw_shape *shape = &lw__value(g, g->inputs.data[i])->shape;
    LW_TRY(
        lw__arena_alloc(&shapes->arena, shape->rank, sizeof **shapes->inputs, &shapes->inputs[i]));
    for (uint32_t d = 0; d < shape->rank; d++) {
      lw_open_dim *dim = &shapes->inputs[i][d];
      *dim = (lw_open_dim){.number = shape->dim[d], .symbol = LW_NONE};
      if (lw__extent_is_number(shape->dim[d])) continue;
      dim->number = -1;
      const lw_extent_node *node = &g->extents.nodes.data[~shape->dim[d]];
      if (node->op == LW_EXTENT_SYMBOL) {
        LW_TRY(find_symbol(shapes, node->symbol, &dim->symbol));
      }
    }
  }
  return LW_OK;
}

/* Numbers for the symbols of the inputs must be numbers for everything. */
static lw_status check_solvable(lw_model *model) {
  int64_t probe[LW_SHAPES_MAX_SYMBOLS];
  lw_graph bound;
  lw_diag diag = {0};
  for (uint32_t s = 0; s < model->shapes->symbol_count; s++) probe[s] = SHAPES_PROBE;
  lw_status status = lw__shapes_graph(model, probe, &diag, &bound);
  if (status == LW_OK) lw__graph_deinit(&bound);
  /* Impossible numbers are no fault of the model's. */
  const char *said = lw__diag_first_error(&diag);
  if (status == LW_STATUS_USAGE && strstr(said, "numbers are needed") == NULL) status = LW_OK;
  if (status != LW_OK) (void)lw__fail(&model->diag, status, "symbolic dimensions", "%s", said);
  lw__diag_deinit(&diag);
  return status;
}

static lw_status begin(lw_model *model, const lw_options *options) {
  LW_TRY(shapes_new(options, &model->shapes));
  lw_shapes *shapes = model->shapes;
  LW_TRY(lw__arena_alloc(&shapes->arena, LW_SHAPES_MAX_SYMBOLS, sizeof *shapes->symbols,
                         &shapes->symbols));
  return lw__arena_alloc(&shapes->arena, model->input_count, sizeof *shapes->inputs,
                         &shapes->inputs);
}

lw_status lw__shapes_create(lw_model *model, const lw_options *options) {
  LW_TRY(begin(model, options));
  lw_status status = take_inputs(model);
  if (status == LW_STATUS_UNSUPPORTED) {
    return lw__fail(&model->diag, status, "symbolic dimensions", "there are more than %d of them",
                    LW_SHAPES_MAX_SYMBOLS);
  }
  LW_TRY(status);
  LW_TRY(check_names(model->shapes, &model->diag));
  LW_TRY(check_solvable(model));
  LW_TRY(check_ladders(model));
  return compile_ladders(model);
}

/* ---- files that need numbers ----- */

static lw_dtype dtype_named(const char *name) {
  for (int t = LW_DTYPE_NONE + 1; t < LW_DTYPE_COUNT; t++) {
    if (strcmp(lw_dtype_name((lw_dtype)t), name) == 0) return (lw_dtype)t;
  }
  return LW_DTYPE_NONE;
}

/* The next dim of "[batch, 3]" from |*at| on; empty when there is none. */
static lw_str next_dim(const char **at) {
  *at += strspn(*at, "[, ");
  lw_str word = lw__str(*at, strcspn(*at, ",]"));
  *at += word.len;
  return word;
}

static bool is_number(lw_str word) {
  for (size_t i = 0; i < word.len; i++) {
    if (word.ptr[i] < '0' || word.ptr[i] > '9') return false;
  }
  return word.len > 0 && word.len < 10;
}

/* What the options say of dim |d| of the input, whose name in the file is |word|; -1: nothing. */
static int64_t given_number(const lw_options *options, const char *input, int d, lw_str word) {
  for (uint32_t i = 0; i < options->shapes.count; i++) {
    const lw_named_shape *shape = &options->shapes.data[i];
    if (strcmp(shape->name, input) == 0 && d < shape->rank) return shape->dims[d];
  }
  for (uint32_t i = 0; i < options->dims.count; i++) {
    if (lw__str_is(word, options->dims.data[i].name)) return options->dims.data[i].value;
  }
  return -1;
}

/* Dims without a name are symbols of their own, as the importer names them. */
static lw_status take_dim(lw_model *model, const lw_tensor_info *info, int d, lw_str word,
                          lw_open_dim *out) {
  const char *name;
  *out = (lw_open_dim){.number = given_number(model->shapes->options, info->name, d, word),
                       .symbol = LW_NONE};
  if (out->number >= 0) return LW_OK;
  if (is_number(word)) {
    out->number = 0;
    for (size_t i = 0; i < word.len; i++) out->number = out->number * 10 + (word.ptr[i] - '0');
    return LW_OK;
  }
  bool anonymous = lw__str_is(word, "?") || lw__str_is(word, "-1");
  LW_TRY(anonymous ? lw__arena_printf(&model->shapes->arena, &name, "%s_dim%d", info->name, d)
                   : lw__arena_strndup(&model->shapes->arena, word.ptr, word.len, &name));
  return find_symbol(model->shapes, name, &out->symbol);
}

static lw_status take_port(lw_model *model, const lw_onnx_port *port, lw_tensor_info *info,
                           lw_open_dim **out_dims) {
  const char *at = port->shape;
  *info = (lw_tensor_info){.dtype = dtype_named(port->type)};
  LW_TRY(lw__arena_strndup(&model->arena, port->name, strlen(port->name), &info->name));
  if (info->dtype == LW_DTYPE_NONE || *at != '[') return LW_STATUS_UNSUPPORTED;
  if (out_dims != NULL) {
    LW_TRY(lw__arena_alloc(&model->shapes->arena, LW_MAX_RANK, sizeof **out_dims, out_dims));
  }
  for (lw_str word; (word = next_dim(&at)).len > 0; info->rank++) {
    if (info->rank == LW_MAX_RANK) return LW_STATUS_UNSUPPORTED;
    lw_open_dim dim = {.number = -1};
    if (out_dims != NULL || is_number(word)) LW_TRY(take_dim(model, info, info->rank, word, &dim));
    info->dims[info->rank] = dim.number;
    if (out_dims != NULL) (*out_dims)[info->rank] = dim;
  }
  return LW_OK;
}

static lw_status take_ports(lw_model *model, const lw_options *options,
                            const lw_onnx_summary *summary) {
  LW_TRY(
      lw__arena_alloc(&model->arena, summary->input_count, sizeof *model->inputs, &model->inputs));
  LW_TRY(lw__arena_alloc(&model->arena, summary->output_count, sizeof *model->outputs,
                         &model->outputs));
  model->input_count = summary->input_count;
  model->output_count = summary->output_count;
  LW_TRY(begin(model, options));
  for (uint32_t i = 0; i < summary->input_count; i++) {
    LW_TRY(take_port(model, &summary->inputs[i], &model->inputs[i], &model->shapes->inputs[i]));
  }
  for (uint32_t i = 0; i < summary->output_count; i++) {
    LW_TRY(take_port(model, &summary->outputs[i], &model->outputs[i], NULL));
  }
  return model->shapes->symbol_count > 0 ? LW_OK : LW_STATUS_UNSUPPORTED;
}

/* Whether numbers for everything that is open can help: some that were tried are taken, or refused
 * only for being these numbers, which a run may choose better. */
static lw_status probe_file(const lw_model *model, const char *path) {
  static const int64_t numbers[] = {SHAPES_PROBE, 2, 1};
  int64_t sizes[LW_SHAPES_MAX_SYMBOLS];
  lw_status result = LW_STATUS_UNSUPPORTED;
  for (size_t i = 0; i < LW_ARRAY_COUNT(numbers) && result == LW_STATUS_UNSUPPORTED; i++) {
    lw_arena arena = {0};
    lw_diag diag = {0};
    lw_import_options import;
    lw_onnx_summary summary = {0};
    for (uint32_t s = 0; s < model->shapes->symbol_count; s++) sizes[s] = numbers[i];
    lw_status status = lw__shapes_import_options(model, sizes, &arena, &import);
    if (status == LW_OK) status = lw__onnx_summary(path, &import, &diag, &summary);
    bool helps = summary.status == LW_OK || summary.status == LW_STATUS_MODEL_INVALID;
    if (status == LW_OK && helps) result = LW_OK;
    if (status == LW_STATUS_OUT_OF_MEMORY) result = status;
    lw__onnx_summary_deinit(&summary);
    lw__diag_deinit(&diag);
    lw__arena_deinit(&arena);
  }
  return result;
}

static lw_status open_file(lw_model *model, const char *path, const lw_options *options,
                           const char *problem) {
  lw_arena arena = {0};
  lw_diag diag = {0};
  lw_import_options import;
  lw_onnx_summary summary = {0};
  lw_status status = lw__import_options(options, &arena, &import);
  if (status == LW_OK) status = lw__onnx_summary(path, &import, &diag, &summary);
  if (status == LW_OK) status = take_ports(model, options, &summary);
  lw__onnx_summary_deinit(&summary);
  lw__diag_deinit(&diag);
  lw__arena_deinit(&arena);
  if (status == LW_OK) status = probe_file(model, path);
  if (status != LW_OK) return status;
  for (uint32_t s = 0; s < model->shapes->symbol_count; s++) {
    if (model->shapes->symbols[s].ladder != NULL) LW_TRY(refuse_ladder(model, s, problem));
  }
  LW_TRY(check_names(model->shapes, &model->diag));
  return lw__arena_strndup(&model->shapes->arena, path, strlen(path), &model->shapes->path);
}

lw_status lw__shapes_create_from_file(lw_model *model, const char *path, const lw_options *options,
                                      uint32_t first_message) {
  lw_text problem = {0};
  lw__diag_line(&model->diag, &problem);
  uint32_t said = model->diag.messages.count;
  lw_status status = open_file(model, path, options, lw__text_str(&problem));
  lw__text_deinit(&problem);
  if (status == LW_OK) { /* what importing said goes, what opening said stays */
    for (uint32_t i = said; i < model->diag.messages.count; i++) {
      model->diag.messages.data[first_message + i - said] = model->diag.messages.data[i];
    }
    model->diag.messages.count -= said - first_message;
    return LW_OK;
  }
  lw__shapes_destroy(model->shapes);
  model->shapes = NULL;
  model->inputs = model->outputs = NULL;
  model->input_count = model->output_count = 0;
  return status;
}
