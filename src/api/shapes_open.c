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
