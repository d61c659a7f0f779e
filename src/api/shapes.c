/* shapes.c: see shapes.h: solving for the open symbols, choosing sizes, compiling variants. */
#include "api/shapes.h"

#include <string.h>

/* ---- sizes ----- */

/* The size that |number| runs in; |number| itself where no step of the ladder is large enough. */
static int64_t ladder_size(const lw_ladder *ladder, int64_t number) {
  if (ladder == NULL) return number;
  for (uint32_t i = 0; i < ladder->count; i++) {
    if (ladder->sizes[i] >= number) return ladder->sizes[i];
  }
  int64_t size = 1;
  while (ladder->automatic && size < number) size *= 2;
  return ladder->automatic ? size : number;
}

/* ---- graphs with numbers ----- */

/* A copy with numbers for all symbols but |left| (LW_NONE: for all). */
static lw_status bind_copy(const lw_model *model, const int64_t *numbers, uint32_t left,
                           lw_diag *diag, lw_graph *out) {
  const lw_shapes *shapes = model->shapes;
  const char *names[LW_SHAPES_MAX_SYMBOLS];
  int64_t values[LW_SHAPES_MAX_SYMBOLS];
  uint32_t count = 0;
  for (uint32_t s = 0; s < shapes->symbol_count; s++) {
    if (s == left) continue;
    names[count] = shapes->symbols[s].name;
    values[count++] = numbers[s];
  }
  LW_TRY(lw__graph_clone(&model->graph, out));
  out->diag = diag;
  out->where = "symbolic dimensions";
  lw_status status = lw__graph_bind_symbols(out, names, values, count, left == LW_NONE);
  out->where = NULL;
  if (status != LW_OK) lw__graph_deinit(out);
  return status;
}

static bool is_input(const lw_model *model, const char *name) {
  for (uint32_t i = 0; i < model->input_count; i++) {
    if (strcmp(model->inputs[i].name, name) == 0) return true;
  }
  return false;
}

/* Shapes that the options give to no input stay, for the importer to refuse. */
lw_status lw__shapes_import_options(const lw_model *model, const int64_t *numbers, lw_arena *arena,
                                    lw_import_options *out) {
  const lw_shapes *shapes = model->shapes;
  LW_TRY(lw__import_options(shapes->options, arena, out));
  uint32_t count = model->input_count, most = count + out->shape_count;
  const char **names;
  lw_shape *import;
  LW_TRY(lw__arena_alloc(arena, most, sizeof *names, &names));
  LW_TRY(lw__arena_alloc(arena, most, sizeof *import, &import));
  for (uint32_t i = 0; i < count; i++) {
    const lw_tensor_info *info = &model->inputs[i];
    names[i] = info->name;
    import[i].rank = (uint32_t)info->rank;
    for (int d = 0; d < info->rank; d++) {
      const lw_open_dim *dim = &shapes->inputs[i][d];
      import[i].dim[d] = dim->symbol == LW_NONE ? dim->number : numbers[dim->symbol];
    }
  }
  for (uint32_t i = 0; i < out->shape_count; i++) {
    if (is_input(model, out->shape_names[i])) continue;
    names[count] = out->shape_names[i];
    import[count++] = out->shapes[i];
  }
  out->shape_names = names;
  out->shapes = import;
  out->shape_count = count;
  return LW_OK;
}

lw_status lw__shapes_graph(const lw_model *model, const int64_t *numbers, lw_diag *diag,
                           lw_graph *out) {
  const lw_shapes *shapes = model->shapes;
  if (shapes->path == NULL) return bind_copy(model, numbers, LW_NONE, diag, out);
  lw_arena arena = {0};
  lw_import_options import;
  lw_status status = lw__shapes_import_options(model, numbers, &arena, &import);
  if (status == LW_OK) status = lw__onnx_import(shapes->path, &import, diag, out);
  if (status == LW_OK) {
    out->diag = diag;
    status = lw__graph_bind_symbols(out, NULL, NULL, 0, true);
    if (status != LW_OK) lw__graph_deinit(out);
  }
  lw__arena_deinit(&arena);
  return status;
}

lw_status lw__shapes_prove(const lw_model *model, const lw_graph *bound, const int64_t *sizes,
                           uint32_t s, lw_arena *arena, lw_rows_proof *out) {
  lw_graph open;
  lw_diag diag = {0};
  *out = (lw_rows_proof){.holds = false};
  lw_status status = bind_copy(model, sizes, s, &diag, &open);
  if (status == LW_OK) {
    status = lw__rows_prove(&open, bound, model->shapes->symbols[s].name, arena, out);
    lw__graph_deinit(&open);
  }
  lw__diag_deinit(&diag);
  return status;
}

/* ---- building a variant ----- */

static void variant_free(lw_variant *variant) {
  lw__model_release(variant->model);
  lw__arena_deinit(&variant->arena);
  lw__mem_free(variant);
}

static lw_status variant_create(const lw_shapes *shapes, const int64_t *sizes, lw_variant **out) {
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_variant)));
  lw_variant *v = memory;
  *v = (lw_variant){.references = 1, .state = LW_VARIANT_BUILDING};
  uint32_t n = shapes->symbol_count;
  lw_status status = lw__arena_dup(&v->arena, sizes, n * sizeof *sizes, &v->sizes);
  if (status == LW_OK) status = lw__arena_alloc(&v->arena, n, sizeof *v->padded, &v->padded);
  if (status == LW_OK) status = lw__arena_alloc(&v->arena, n, sizeof *v->places, &v->places);
  if (status == LW_OK) {
    *out = v;
  } else {
    variant_free(v);
  }
  return status;
}

/* Which symbols may be smaller than the variant's sizes, and where they are in its ports. */
static lw_status variant_prove(const lw_model *model, lw_variant *v) {
  const lw_shapes *shapes = model->shapes;
  const lw_graph *g = &v->model->graph;
  for (uint32_t s = 0; s < shapes->symbol_count; s++) {
    if (shapes->symbols[s].ladder == NULL || v->sizes[s] < 2) continue;
    lw_rows_proof proof;
    lw_status status = lw__shapes_prove(model, g, v->sizes, s, &v->arena, &proof);
    v->padded[s] = status == LW_OK && proof.holds;
    lw__rows_proof_deinit(&proof);
    LW_TRY(status);
    if (!v->padded[s]) continue;
    size_t ports = (size_t)g->inputs.count + g->outputs.count;
    LW_TRY(lw__arena_alloc(&v->arena, ports, sizeof **v->places, &v->places[s]));
    for (uint32_t i = 0; i < g->inputs.count; i++) v->places[s][i] = proof.inputs[i];
    for (uint32_t i = 0; i < g->outputs.count; i++) {
      v->places[s][g->inputs.count + i] = proof.outputs[i];
    }
  }
  return LW_OK;
}

static lw_status variant_build(const lw_model *model, lw_variant *v, lw_rt_program *base) {
  LW_TRY(lw__model_create(&v->model));
  lw_model *m = v->model;
  LW_TRY(lw__shapes_graph(model, v->sizes, &m->diag, &m->graph));
  m->has_graph = true;
  if (m->graph.outputs.count != model->output_count) {
    return lw__fail(&m->diag, LW_STATUS_UNSUPPORTED, "open dimensions",
                    "the size of an output depends on data, which works with numbers for all "
                    "dimensions alone: give them with --dim NAME=N or --shape INPUT=2x3");
  }
  LW_TRY(variant_prove(model, v));
  return lw__model_build_variant(m, model, model->shapes->options, base);
}

/* The errors of a variant become the caller's. */
static void tell_errors(const lw_variant *v, lw_diag *diag) {
  for (uint32_t i = 0; v->model != NULL && i < v->model->diag.messages.count; i++) {
    const lw_message *m = &v->model->diag.messages.data[i];
    if (m->severity == LW_SEVERITY_ERROR) (void)lw__fail(diag, m->status, m->where, "%s", m->text);
  }
}

/* ---- the table of variants: under the lock ----- */

static lw_variant *table_find(const lw_shapes *shapes, const int64_t *sizes) {
  for (uint32_t i = 0; i < shapes->variants.count; i++) {
    lw_variant *v = shapes->variants.data[i];
    if (memcmp(v->sizes, sizes, shapes->symbol_count * sizeof *sizes) == 0) return v;
  }
  return NULL;
}

static void table_unreference(lw_variant *v) {
  if (--v->references == 0) variant_free(v);
}

static void table_remove(lw_shapes *shapes, lw_variant *v) {
  for (uint32_t i = 0; i < shapes->variants.count; i++) {
    if (shapes->variants.data[i] != v) continue;
    shapes->variants.data[i] = shapes->variants.data[--shapes->variants.count];
    table_unreference(v);
    return;
  }
}

/* Room for one more: the one that was not used for the longest time goes. */
static void table_evict(lw_shapes *shapes) {
  while (shapes->variants.count >= shapes->max_variants) {
    lw_variant *oldest = NULL;
    for (uint32_t i = 0; i < shapes->variants.count; i++) {
      lw_variant *v = shapes->variants.data[i];
      if (v == shapes->base || v->state != LW_VARIANT_READY) continue;
      if (oldest == NULL || v->used < oldest->used) oldest = v;
    }
    if (oldest == NULL) return;
    table_remove(shapes, oldest);
  }
}

/* Compiles a new variant with the lock given up meanwhile. */
static lw_status table_build(lw_model *model, const int64_t *sizes, lw_diag *diag,
                             lw_variant **out) {
  lw_shapes *shapes = model->shapes;
  table_evict(shapes);
  lw_variant *v;
  LW_TRY(variant_create(shapes, sizes, &v));
  lw_status status = lw_vec_push(&shapes->variants, v);
  if (status != LW_OK) {
    variant_free(v);
    return status;
  }
  v->references++; /* the caller's */
  lw_rt_program *base = shapes->base != NULL ? shapes->base->model->program : NULL;
  (void)pthread_mutex_unlock(&shapes->lock);
  status = variant_build(model, v, base);
  (void)pthread_mutex_lock(&shapes->lock);
  v->state = status == LW_OK ? LW_VARIANT_READY : LW_VARIANT_FAILED;
  (void)pthread_cond_broadcast(&shapes->changed);
  if (status == LW_OK) {
    shapes->compiled++;
    if (shapes->base == NULL) shapes->base = v;
    *out = v;
    return LW_OK;
  }
  tell_errors(v, diag);
  table_remove(shapes, v);
  table_unreference(v);
  return status;
}

/* One that is there, or is being built by another thread. LW_STATUS_NOT_FOUND: neither, or that
 * failed. */
static lw_status table_wait(lw_shapes *shapes, const int64_t *sizes, lw_variant **out) {
  lw_variant *v = table_find(shapes, sizes);
  if (v == NULL) return LW_STATUS_NOT_FOUND;
  v->references++;
  while (v->state == LW_VARIANT_BUILDING) {
    (void)pthread_cond_wait(&shapes->changed, &shapes->lock);
  }
  if (v->state == LW_VARIANT_READY) {
    *out = v;
    return LW_OK;
  }
  table_unreference(v);
  return LW_STATUS_NOT_FOUND;
}

/* Where the proof failed at this very size the exact one is taken. */
static bool sizes_made_exact(const lw_shapes *shapes, const lw_variant *v, const int64_t *numbers,
                             int64_t *sizes) {
  bool changed = false;
  for (uint32_t s = 0; s < shapes->symbol_count; s++) {
    if (v->padded[s] || sizes[s] == numbers[s]) continue;
    sizes[s] = numbers[s];
    changed = true;
  }
  return changed;
}

static lw_status table_acquire(lw_model *model, const int64_t *numbers, lw_diag *diag,
                               lw_variant **out) {
  lw_shapes *shapes = model->shapes;
  int64_t sizes[LW_SHAPES_MAX_SYMBOLS];
  for (uint32_t s = 0; s < shapes->symbol_count; s++) {
    sizes[s] = ladder_size(shapes->symbols[s].ladder, numbers[s]);
  }
  for (;;) {
    lw_variant *v = NULL;
    lw_status status = table_wait(shapes, sizes, &v);
    if (status == LW_STATUS_NOT_FOUND) status = table_build(model, sizes, diag, &v);
    LW_TRY(status);
    v->used = ++shapes->uses;
    if (!sizes_made_exact(shapes, v, numbers, sizes)) {
      *out = v;
      return LW_OK;
    }
    table_unreference(v);
  }
}

lw_status lw__shapes_acquire(lw_model *model, const int64_t *numbers, lw_diag *diag,
                             lw_variant **out) {
  (void)pthread_mutex_lock(&model->shapes->lock);
  lw_status status = table_acquire(model, numbers, diag, out);
  (void)pthread_mutex_unlock(&model->shapes->lock);
  return status;
}

void lw__shapes_release(lw_model *model, lw_variant *variant) {
  (void)pthread_mutex_lock(&model->shapes->lock);
  table_unreference(variant);
  (void)pthread_mutex_unlock(&model->shapes->lock);
}

const lw_model *lw__model_shown(const lw_model *model) {
  if (model == NULL || model->shapes == NULL) return model;
  (void)pthread_mutex_lock(&model->shapes->lock);
  lw_variant *base = model->shapes->base;
  (void)pthread_mutex_unlock(&model->shapes->lock);
  return base == NULL ? NULL : base->model;
}

/* ---- shapes of a run ----- */

/* |symbol| NULL: the model has the number |want|; else another input has it for the symbol. */
static lw_status solve_fail(const lw_model *model, uint32_t input, int d, const char *symbol,
                            int64_t got, int64_t want, lw_diag *diag) {
  lw_text where = {0};
  lw__text_add(&where, "input %u '%s'", input, model->inputs[input].name);
  lw_status status =
      symbol == NULL
          ? lw__fail(diag, LW_STATUS_USAGE, lw__text_str(&where),
                     "dimension %d is %lld, the model has %lld", d, (long long)got, (long long)want)
          : lw__fail(diag, LW_STATUS_USAGE, lw__text_str(&where),
                     "dimension %d is %lld, but '%s' is %lld in another input", d, (long long)got,
                     symbol, (long long)want);
  lw__text_deinit(&where);
  return status;
}

lw_status lw__shapes_solve(const lw_model *model, const int64_t *const *dims, lw_diag *diag,
                           int64_t *out_numbers) {
  const lw_shapes *shapes = model->shapes;
  for (uint32_t s = 0; s < shapes->symbol_count; s++) out_numbers[s] = -1;
  for (uint32_t i = 0; i < model->input_count; i++) {
    for (int d = 0; d < model->inputs[i].rank; d++) {
      const lw_open_dim *dim = &shapes->inputs[i][d];
      if (dim->symbol == LW_NONE) {
        if (dim->number < 0 || dim->number == dims[i][d]) continue;
        return solve_fail(model, i, d, NULL, dims[i][d], dim->number, diag);
      }
      int64_t *number = &out_numbers[dim->symbol];
      if (*number < 0) *number = dims[i][d];
      if (*number == dims[i][d]) continue;
      return solve_fail(model, i, d, shapes->symbols[dim->symbol].name, dims[i][d], *number, diag);
    }
  }
  return LW_OK;
}

int lw__shapes_port_dims(const lw_model *model, const lw_variant *variant, uint32_t port,
                         const int64_t *numbers, int64_t *out_dims, uint32_t *out_shorter) {
  const lw_shapes *shapes = model->shapes;
  const lw_model *m = variant->model;
  const lw_tensor_info *info =
      port < m->input_count ? &m->inputs[port] : &m->outputs[port - m->input_count];
  *out_shorter = 0;
  for (int d = 0; d < info->rank; d++) out_dims[d] = info->dims[d];
  for (uint32_t s = 0; s < shapes->symbol_count; s++) {
    if (!variant->padded[s] || variant->sizes[s] == numbers[s]) continue;
    const lw_rows_place *place = &variant->places[s][port];
    if (place->dim == LW_NONE) continue;
    out_dims[place->dim] = numbers[s] * place->inner;
    *out_shorter |= 1u << place->dim;
  }
  return info->rank;
}

/* ---- life ----- */

void lw__shapes_destroy(lw_shapes *shapes) {
  if (shapes == NULL) return;
  while (shapes->variants.count > 0) table_remove(shapes, shapes->variants.data[0]);
  lw_vec_free(&shapes->variants);
  lw_options_destroy(shapes->options);
  lw__arena_deinit(&shapes->arena);
  (void)pthread_cond_destroy(&shapes->changed);
  (void)pthread_mutex_destroy(&shapes->lock);
  lw__mem_free(shapes);
}
