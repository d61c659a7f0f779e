/* model.c: loading: file or graph -> bound graph -> compiled plan -> program on a device. */
#include "api/model.h"

#include <stdlib.h>
#include <string.h>

#include "api/plans.h"
#include "api/shapes.h"
#include "api/states.h"

/* ---- life ----- */

lw_status lw__model_create(lw_model **out) {
  *out = NULL;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_model)));
  lw_model *model = memory;
  memset(model, 0, sizeof *model);
  atomic_init(&model->refs, 1);
  model->device = model->target = "none";
  if (pthread_mutex_init(&model->lock, NULL) != 0) {
    lw__mem_free(model);
    return LW_STATUS_OUT_OF_MEMORY;
  }
  *out = model;
  return LW_OK;
}

void lw__model_retain(lw_model *model) { atomic_fetch_add(&model->refs, 1); }

static void model_free(lw_model *model) {
  lw__shapes_destroy(model->shapes);
  if (model->program != NULL) lw__rt_program_release(model->program);
  if (model->rt_device != NULL) lw__rt_device_release(model->rt_device);
  if (model->compiling) lw__compiled_deinit(&model->compiled);
  if (model->has_graph) lw__graph_deinit(&model->graph);
  lw__plan_file_deinit(&model->plan_file);
  for (uint32_t i = 0; i < model->plan_maps.count; i++) lw__file_unmap(&model->plan_maps.data[i]);
  lw_vec_free(&model->plan_maps);
  lw_options_destroy(model->options);
  lw_vec_free(&model->states);
  lw_vec_free(&model->dumps);
  lw__text_deinit(&model->explain);
  lw__text_deinit(&model->plan);
  lw__text_deinit(&model->error);
  lw__diag_deinit(&model->diag);
  lw__arena_deinit(&model->arena);
  (void)pthread_mutex_destroy(&model->lock);
  lw__mem_free(model);
}

void lw__model_release(lw_model *model) {
  if (model != NULL && atomic_fetch_sub(&model->refs, 1) == 1) model_free(model);
}

void lw_model_destroy(lw_model *model) { lw__model_release(model); }

/* ---- messages ----- */

void lw__diag_line(const lw_diag *diag, lw_text *out) {
  lw__text_clear(out);
  for (uint32_t i = 0; i < diag->messages.count; i++) {
    const lw_message *m = &diag->messages.data[i];
    if (m->severity != LW_SEVERITY_ERROR) continue;
    if (m->where[0] != '\0') lw__text_add(out, "%s: ", m->where);
    lw__text_add(out, "%s", m->text);
    return;
  }
}

size_t lw_model_message_count(const lw_model *model) {
  return model == NULL ? 0 : model->diag.messages.count;
}

const lw_message *lw_model_message(const lw_model *model, size_t index) {
  if (model == NULL || index >= model->diag.messages.count) return NULL;
  return &model->diag.messages.data[index];
}

const char *lw_model_error(const lw_model *model) {
  if (model == NULL) return "there is no model: out of memory, or an argument is NULL";
  if (model->status != LW_OK && model->error.len == 0) return lw_status_name(model->status);
  return lw__text_str(&model->error);
}

/* ---- the graph ----- */

typedef struct model_dumper { /* what a load hands to the pipeline to keep states with */
  lw_model *model;
  const lw_options *options;
} model_dumper;

static bool dump_wanted(const lw_options *options, const char *step) {
  for (uint32_t i = 0; i < options->dump_steps.count; i++) {
    if (strcmp(options->dump_steps.data[i], step) == 0) return true;
  }
  return false;
}

/* Of a step that comes by several times the last state is kept, but "import" is the file's. */
static void model_dump(void *user, const char *step, const char *text) {
  lw_model *model = ((model_dumper *)user)->model;
  lw_dump_entry entry;
  if (!dump_wanted(((model_dumper *)user)->options, step)) return;
  if (lw__arena_strndup(&model->arena, step, strlen(step), &entry.step) != LW_OK) return;
  if (lw__arena_strndup(&model->arena, text, strlen(text), &entry.text) != LW_OK) return;
  for (uint32_t i = 0; i < model->dumps.count; i++) {
    if (strcmp(model->dumps.data[i].step, step) != 0) continue;
    if (strcmp(step, "import") != 0) model->dumps.data[i] = entry;
    return;
  }
  if (lw_vec_push(&model->dumps, entry) != LW_OK) return; /* found missing when asked for */
}

static lw_status model_dump_graph(lw_model *model, const lw_options *options, const char *step) {
  if (!dump_wanted(options, step)) return LW_OK;
  lw_text text = {0};
  lw__graph_print(&model->graph, false, &text);
  lw_status status = text.status;
  model_dumper dumper = {model, options};
  if (status == LW_OK) model_dump(&dumper, step, lw__text_str(&text));
  lw__text_deinit(&text);
  return status;
}

static lw_status import_fixed(const lw_options *options, lw_arena *arena, lw_import_options *out) {
  lw_import_fixed *fixed;
  LW_TRY(lw__arena_alloc(arena, options->values.count, sizeof *fixed, &fixed));
  for (uint32_t i = 0; i < options->values.count; i++) {
    const lw_named_value *v = &options->values.data[i];
    fixed[i] = (lw_import_fixed){v->name, v->integers, v->floats, v->count};
  }
  out->fixed = fixed;
  out->fixed_count = options->values.count;
  return LW_OK;
}

lw_status lw__import_options(const lw_options *options, lw_arena *arena, lw_import_options *out) {
  uint32_t dims = options->dims.count, shapes = options->shapes.count;
  const char **dim_names, **shape_names;
  int64_t *values;
  lw_shape *import_shapes;
  LW_TRY(lw__arena_alloc(arena, dims, sizeof *dim_names, &dim_names));
  LW_TRY(lw__arena_alloc(arena, dims, sizeof *values, &values));
  LW_TRY(lw__arena_alloc(arena, shapes, sizeof *shape_names, &shape_names));
  LW_TRY(lw__arena_alloc(arena, shapes, sizeof *import_shapes, &import_shapes));
  for (uint32_t i = 0; i < dims; i++) {
    dim_names[i] = options->dims.data[i].name;
    values[i] = options->dims.data[i].value;
  }
  for (uint32_t i = 0; i < shapes; i++) {
    const lw_named_shape *shape = &options->shapes.data[i];
    shape_names[i] = shape->name;
    import_shapes[i] = lw__shape_of((uint32_t)shape->rank, shape->dims);
  }
  *out = (lw_import_options){.dim_names = dim_names,
                             .dim_values = values,
                             .dim_count = dims,
                             .shape_names = shape_names,
                             .shapes = import_shapes,
                             .shape_count = shapes};
  return import_fixed(options, arena, out);
}

/* Numbers for the symbols that the options have numbers for. What is left in inputs a run decides.
 */
static lw_status model_bind(lw_model *model, const lw_import_options *import,
                            const lw_options *options) {
  model->graph.where = "symbolic dimensions";
  LW_TRY(lw__graph_bind_symbols(&model->graph, import->dim_names, import->dim_values,
                                import->dim_count, false));
  bool open = lw__shapes_are_open(&model->graph);
  if (open && options->compile_only && options->ladders.count == 0) open = false;
  if (!open) LW_TRY(lw__graph_bind_symbols(&model->graph, NULL, NULL, 0, true));
  model->graph.where = NULL;
  return model_dump_graph(model, options, "bind");
}

static lw_status model_import(lw_model *model, const char *path, const lw_options *options,
                              lw_diag *diag) {
  lw_import_options import;
  uint32_t first_message = diag->messages.count;
  LW_TRY(lw__import_options(options, &model->arena, &import));
  lw_status status = lw__onnx_import(path, &import, diag, &model->graph);
  bool open = status == LW_STATUS_UNSUPPORTED || status == LW_STATUS_USAGE;
  if (open && diag == &model->diag && !options->compile_only) {
    lw_status opened = lw__shapes_create_from_file(model, path, options, first_message);
    if (opened != LW_STATUS_UNSUPPORTED) return opened;
  }
  LW_TRY(status);
  model->has_graph = true;
  model->graph.diag = diag;
  LW_TRY(model_dump_graph(model, options, "import"));
  return model_bind(model, &import, options);
}

/* A copy of the caller's graph that does not borrow from it. */
static lw_status model_copy_graph(lw_model *model, const lw_graph *source,
                                  const lw_options *options) {
  LW_TRY(lw__graph_clone(source, &model->graph));
  model->has_graph = true;
  model->graph.diag = &model->diag;
  model->graph.where = NULL;
  for (uint32_t n = 0; n < model->graph.nodes.count; n++) {
    lw_node *node = lw__node(&model->graph, n);
    if (node->op != LW_OP_CONST) continue;
    LW_TRY(lw__arena_dup(&model->graph.arena, node->attr.constant.data, node->attr.constant.bytes,
                         &node->attr.constant.data));
  }
  LW_TRY(lw__graph_verify(&model->graph, &model->diag));
  LW_TRY(model_dump_graph(model, options, "import"));
  lw_import_options import;
  LW_TRY(lw__import_options(options, &model->arena, &import));
  return model_bind(model, &import, options);
}

/* ---- compiling ----- */

static void tensor_info_set(lw_tensor_info *info, const lw_graph *graph, lw_value_id value,
                            const char *name) {
  const lw_value *v = lw__value(graph, value);
  info->name = name == NULL ? "" : name;
  info->dtype = v->dtype;
  info->rank = (int)v->shape.rank;
  for (uint32_t d = 0; d < v->shape.rank; d++) {
    info->dims[d] = lw__extent_is_number(v->shape.dim[d]) ? v->shape.dim[d] : -1;
  }
}

static lw_status model_make_infos(lw_model *model, uint32_t inputs, uint32_t outputs) {
  LW_TRY(lw__arena_alloc(&model->arena, inputs, sizeof *model->inputs, &model->inputs));
  LW_TRY(lw__arena_alloc(&model->arena, outputs, sizeof *model->outputs, &model->outputs));
  model->input_count = inputs;
  model->output_count = outputs;
  return LW_OK;
}

static void tensor_info_of_io(lw_tensor_info *info, const lw_plan_io *io) {
  info->name = io->name == NULL ? "" : io->name;
  info->dtype = io->dtype;
  info->rank = (int)io->rank;
  for (uint32_t d = 0; d < io->rank; d++) info->dims[d] = io->dims[d];
}

static lw_status model_plan_infos(lw_model *model) {
  const lw_plan *plan = &model->plan_file.plan;
  LW_TRY(model_make_infos(model, plan->inputs.count, plan->outputs.count));
  for (uint32_t i = 0; i < plan->inputs.count; i++) {
    tensor_info_of_io(&model->inputs[i], &plan->inputs.data[i]);
  }
  for (uint32_t i = 0; i < plan->outputs.count; i++) {
    tensor_info_of_io(&model->outputs[i], &plan->outputs.data[i]);
  }
  return LW_OK;
}

static lw_status model_tensor_infos(lw_model *model) {
  const lw_graph *g = &model->graph;
  LW_TRY(model_make_infos(model, g->inputs.count, g->outputs.count));
  for (uint32_t i = 0; i < g->inputs.count; i++) {
    lw_value_id value = g->inputs.data[i];
    tensor_info_set(&model->inputs[i], g, value, lw__value(g, value)->name);
  }
  for (uint32_t i = 0; i < g->outputs.count; i++) {
    tensor_info_set(&model->outputs[i], g, g->outputs.data[i], g->output_names.data[i]);
  }
  return LW_OK;
}

lw_build_options lw__model_build_options(const lw_model *model, const lw_options *options) {
  return (lw_build_options){.threads = options->threads,
                            .sm_arch = model->profile.sm_arch,
                            .arch_specific = model->profile.arch_specific,
                            .nvrtc_path = options->nvrtc,
                            .cc = options->cc,
                            .path = options->path};
}

/* The kernels alone, on the model's own device. */
static lw_status model_try_kernels(void *user, const lw_plan *plan, bool *out_refused,
                                   lw_diag *diag) {
  const lw_model *model = user;
  lw_rt_program *program;
  LW_TRY(lw__rt_program_try(model->rt_device, NULL, plan, out_refused, diag, &program));
  lw__rt_program_release(program);
  return LW_OK;
}

/* Only drivers of GPUs refuse kernels. */
bool lw__model_tries(const lw_model *model, const lw_options *options) {
  lw_rt_device_info info = {0};
  if (model->rt_device == NULL || options->compile_only) return false;
  lw__rt_device_info(model->rt_device, &info);
  return strcmp(info.kind, "cuda") == 0;
}

static lw_compile_options model_compile_options(lw_model *model, const lw_options *options,
                                                lw_cache *cache, model_dumper *dumper) {
  return (lw_compile_options){
      .profile = &model->profile,
      .policy = options->policy,
      .fuse = {.off = !options->fuse,
               .force = options->force.data,
               .force_count = options->force.count,
               .forbid = options->forbid.data,
               .forbid_count = options->forbid.count},
      .build = lw__model_build_options(model, options),
      .cache = cache,
      .streams = options->streams,
      .early_start = options->early_start,
      .channels_last_io = options->channels_last,
      .states = model->states.data,
      .state_count = model->states.count,
      .dump = options->dump_steps.count > 0 ? model_dump : NULL,
      .dump_user = dumper,
      .try_kernels = lw__model_tries(model, options) ? model_try_kernels : NULL,
      .try_user = model,
  };
}

/* Every step that was asked for must have come by. */
static lw_status model_check_dumps(lw_model *model, const lw_options *options) {
  for (uint32_t i = 0; i < options->dump_steps.count; i++) {
    const char *step = options->dump_steps.data[i], *text;
    if (lw_model_dump(model, step, &text) == LW_OK) continue;
    return lw__fail(&model->diag, LW_STATUS_USAGE, "option dump",
                    "there is no step '%s'; there are import, bind, passes, passes.NAME, fuse, "
                    "lower, emit and sched",
                    step);
  }
  return LW_OK;
}

static lw_status model_open_cache(const lw_options *options, lw_diag *diag, lw_cache **out) {
  LW_TRY(lw__cache_open(options->cache_folder, diag, out));
  if (options->cache_limit != 0) lw__cache_limit(*out, options->cache_limit);
  return LW_OK;
}

static lw_status model_compile(lw_model *model, const lw_options *options, lw_cache *cache,
                               lw_diag *diag) {
  model_dumper dumper = {model, options};
  lw_compile_options compile = model_compile_options(model, options, cache, &dumper);
  model->compiling = true;
  LW_TRY(lw__compile(&model->graph, &compile, true, diag, &model->compiled));
  model->has_compiled = true;
  return model_check_dumps(model, options);
}

/* Where dimensions are open, runs compile. */
static lw_status model_compile_or_open(lw_model *model, const lw_options *options, lw_cache *cache,
                                       bool *out_open) {
  bool states = options->states.count > 0 || options->find_states;
  *out_open = model->shapes != NULL;
  if (!*out_open) LW_TRY(model_tensor_infos(model));
  *out_open |= lw__shapes_are_open(&model->graph);
  if (*out_open && states) {
    return lw__fail(&model->diag, LW_STATUS_UNSUPPORTED, "option state",
                    "states need numbers for all dimensions (option dim)");
  }
  if (model->shapes != NULL) return LW_OK;
  LW_TRY(lw__model_find_states(model, options));
  model->state_rows = options->state_rows;
  if (*out_open) return lw__shapes_create(model, options);
  return model_compile(model, options, cache, &model->diag);
}

/* From the graph to a plan. */
static lw_status model_build(lw_model *model, const lw_options *options) {
  lw_cache *cache = NULL;
  LW_TRY(lw__model_choose_device(model, options));
  LW_TRY(model_open_cache(options, &model->diag, &cache));
  bool open;
  lw_status status = model_compile_or_open(model, options, cache, &open);
  lw__cache_report(cache, &model->diag);
  lw__cache_close(cache);
  return status;
}

/* The plan as it was kept, or compiled and kept. */
static lw_status model_find_or_build(lw_model *model, const char *path, const lw_options *options,
                                     lw_cache *cache) {
  bool found;
  LW_TRY(lw__plans_find(model, path, options, cache, &found));
  if (found) return model_plan_infos(model);
  uint32_t first_message = model->diag.messages.count;
  LW_TRY(model_import(model, path, options, &model->diag));
  bool open;
  LW_TRY(model_compile_or_open(model, options, cache, &open));
  if (open) return LW_OK;
  return lw__plans_keep(model, path, options, first_message, cache);
}

static lw_status model_from_onnx(lw_model *model, const char *path, const lw_options *options) {
  bool plans = lw__plans_wanted(options);
  if (plans && lw__model_choose_device(model, options) != LW_OK) {
    /* It is looked for again when the model is known to be good. */
    plans = false;
    lw__diag_deinit(&model->diag);
  }
  if (!plans) {
    LW_TRY(model_import(model, path, options, &model->diag));
    return model_build(model, options);
  }
  lw_cache *cache = NULL;
  LW_TRY(model_open_cache(options, &model->diag, &cache));
  lw_status status = model_find_or_build(model, path, options, cache);
  lw__cache_report(cache, &model->diag);
  lw__cache_close(cache);
  return status;
}

static lw_status model_from_plan(lw_model *model, const char *path, const lw_options *options) {
  LW_TRY(lw__plans_load(model, path, options));
  return model_plan_infos(model);
}

const lw_plan *lw__model_plan(const lw_model *model) {
  if (model == NULL) return NULL;
  if (model->shapes != NULL) return lw__model_plan(lw__model_shown(model));
  if (model->from_plan) return &model->plan_file.plan;
  return model->has_compiled ? &model->compiled.plan : NULL;
}

/* Puts the plan on the device. */
static lw_status model_start(lw_model *model, const lw_options *options, lw_rt_program *base) {
  if (model->shapes != NULL) return LW_OK; /* its variants are there already */
  if (options->compile_only || model->rt_device == NULL) return LW_OK;
  const lw_plan *plan = lw__model_plan(model);
  return base == NULL ? lw__rt_program_load(model->rt_device, plan, &model->diag, &model->program)
                      : lw__rt_program_load_beside(base, plan, &model->diag, &model->program);
}

static lw_status model_recall(lw_model *model, bool report, lw_diag *diag) {
  if (model->options == NULL) {
    return lw__fail(diag, LW_STATUS_USAGE, "",
                    "a plan file holds no graph: ask the model that it was compiled from");
  }
  if (!model->has_graph) {
    LW_TRY(model_import(model, model->path, model->options, diag));
    const lw_file_map *map = &model->graph.files.data[0];
    if (!lw__hash_eq(lw__plan_source_hash(map->data, map->bytes),
                     model->plan_file.sources[0].hash)) {
      return lw__fail(diag, LW_STATUS_USAGE, model->path,
                      "the file has changed since it was loaded");
    }
  }
  if (!report || model->has_compiled) return LW_OK;
  lw_cache *cache = NULL;
  LW_TRY(model_open_cache(model->options, diag, &cache));
  if (model->compiling) lw__compiled_deinit(&model->compiled); /* an attempt that failed */
  lw_status status = model_compile(model, model->options, cache, diag);
  lw__cache_close(cache);
  return status;
}

lw_status lw__model_recall(lw_model *model, bool report, lw_diag *diag) {
  if (lw__model_plan(model) == NULL) return LW_STATUS_USAGE;
  if (model->shapes != NULL) { /* reports speak of the first variant; its graph is there */
    lw_model *shown = (lw_model *)(uintptr_t)lw__model_shown(model);
    return report ? lw__model_recall(shown, report, diag) : LW_OK;
  }
  if (!model->from_plan) return LW_OK;
  lw_status status = model_recall(model, report, diag);
  if (model->has_graph) model->graph.diag = NULL; /* the caller's goes away */
  if (model->compiling) model->compiled.graph.diag = NULL;
  return status;
}

static lw_status model_find_or_compile_variant(lw_model *variant, const lw_model *parent,
                                               const lw_options *options, lw_cache *cache) {
  const lw_graph *files = variant->graph.files.count > 0 ? &variant->graph : &parent->graph;
  bool plans = lw__plans_wanted(options), found = false;
  if (plans) LW_TRY(lw__plans_find_variant(variant, files, options, cache, &found));
  if (found) return LW_OK;
  uint32_t first_message = variant->diag.messages.count;
  LW_TRY(model_compile(variant, options, cache, &variant->diag));
  if (!plans) return LW_OK;
  return lw__plans_keep_variant(variant, files, options, first_message, cache);
}

lw_status lw__model_build_variant(lw_model *variant, const lw_model *parent,
                                  const lw_options *options, lw_rt_program *base) {
  int64_t start = lw__now_ns();
  lw_cache *cache = NULL;
  variant->graph.diag = &variant->diag;
  variant->profile = parent->profile;
  variant->device = parent->device;
  variant->target = parent->target;
  variant->channels_last = parent->channels_last;
  variant->fuse = parent->fuse;
  variant->rt_device = parent->rt_device;
  if (variant->rt_device != NULL) lw__rt_device_retain(variant->rt_device);
  LW_TRY(model_tensor_infos(variant));
  LW_TRY(model_dump_graph(variant, options, "import"));
  LW_TRY(model_dump_graph(variant, options, "bind"));
  LW_TRY(model_open_cache(options, &variant->diag, &cache));
  lw_status status = model_find_or_compile_variant(variant, parent, options, cache);
  lw__cache_close(cache);
  variant->compile_s = (double)(lw__now_ns() - start) * 1e-9;
  return status != LW_OK ? status : model_start(variant, options, base);
}

/* Sets what the caller sees of a load that began at |start_ns| and came to |status|. */
static lw_status model_finish(lw_model *model, int64_t start_ns, lw_status status) {
  model->compile_s = (double)(lw__now_ns() - start_ns) * 1e-9;
  model->status = status;
  if (status != LW_OK) lw__diag_line(&model->diag, &model->error);
  return status;
}

/* |options| may be NULL: the defaults, made for the call. */
static lw_status model_options(const lw_options *given, lw_options **out_own,
                               const lw_options **out) {
  *out_own = NULL;
  if (given == NULL) LW_TRY(lw_options_create(out_own));
  *out = given != NULL ? given : *out_own;
  return LW_OK;
}

lw_status lw_model_load(const char *path, const lw_options *options, lw_model **out_model) {
  if (out_model == NULL) return LW_STATUS_USAGE;
  int64_t start = lw__now_ns();
  LW_TRY(lw__model_create(out_model));
  lw_model *model = *out_model;
  lw_options *own;
  lw_status status = model_options(options, &own, &options);
  if (status == LW_OK && path == NULL) {
    status = lw__fail(&model->diag, LW_STATUS_USAGE, "lw_model_load", "path is NULL");
  }
  if (status == LW_OK) {
    model->channels_last = options->channels_last;
    model->fuse = options->fuse;
    status = lw__plans_is_file(path) ? model_from_plan(model, path, options)
                                     : model_from_onnx(model, path, options);
  }
  if (status == LW_OK) status = model_start(model, options, NULL);
  lw_options_destroy(own);
  return model_finish(model, start, status);
}

lw_status lw_model_compile(const lw_graph *graph, const lw_options *options, lw_model **out_model) {
  if (out_model == NULL) return LW_STATUS_USAGE;
  int64_t start = lw__now_ns();
  LW_TRY(lw__model_create(out_model));
  lw_model *model = *out_model;
  lw_options *own;
  lw_status status = model_options(options, &own, &options);
  if (status == LW_OK && (graph == NULL || graph->outputs.count == 0)) {
    status = lw__fail(&model->diag, LW_STATUS_USAGE, "lw_model_compile", "%s",
                      graph == NULL ? "graph is NULL" : "the graph has no output");
  }
  if (status == LW_OK) {
    model->channels_last = options->channels_last;
    model->fuse = options->fuse;
    status = model_copy_graph(model, graph, options);
  }
  if (status == LW_OK) status = model_build(model, options);
  if (status == LW_OK) status = model_start(model, options, NULL);
  lw_options_destroy(own);
  return model_finish(model, start, status);
}

/* ---- what a model tells ----- */

size_t lw_model_input_count(const lw_model *model) {
  return model == NULL ? 0 : model->input_count;
}
size_t lw_model_output_count(const lw_model *model) {
  return model == NULL ? 0 : model->output_count;
}

const lw_tensor_info *lw_model_input(const lw_model *model, size_t index) {
  return model != NULL && index < model->input_count ? &model->inputs[index] : NULL;
}

bool lw_model_output_count_of(const lw_model *model, size_t index, size_t *out_count_index,
                              int *out_axis) {
  const lw_tensor_info *info = lw_model_output(model, index);
  if (info == NULL || out_count_index == NULL || out_axis == NULL) return false;
  size_t length = strlen(info->name);
  for (size_t i = index + 1; i < model->output_count; i++) {
    const char *name = model->outputs[i].name;
    if (strncmp(name, info->name, length) != 0 || name[length] != '#') continue;
    *out_count_index = i;
    *out_axis = (int)strtol(name + length + 1, NULL, 10);
    return true;
  }
  return false;
}

const lw_tensor_info *lw_model_output(const lw_model *model, size_t index) {
  return model != NULL && index < model->output_count ? &model->outputs[index] : NULL;
}

const char *lw_model_device(const lw_model *model) {
  return model == NULL ? "none" : model->device;
}

lw_status lw_model_explain(lw_model *model, const char **out_json) {
  if (model == NULL || out_json == NULL) return LW_STATUS_USAGE;
  *out_json = "";
  lw_diag diag = {0};
  (void)pthread_mutex_lock(&model->lock);
  lw_status status = lw__model_recall(model, true, &diag);
  if (status == LW_OK && model->explain.len == 0) {
    status = lw__model_explain(lw__model_shown(model), &model->explain);
  }
  lw__diag_deinit(&diag);
  if (status == LW_OK) *out_json = lw__text_str(&model->explain);
  (void)pthread_mutex_unlock(&model->lock);
  return status;
}

lw_status lw_model_dump(lw_model *model, const char *step, const char **out_text) {
  if (model == NULL || step == NULL || out_text == NULL) return LW_STATUS_USAGE;
  const lw_model *from[2] = {model, lw__model_shown(model)};
  for (int k = 0; k < 2 && from[k] != NULL; k++) {
    for (uint32_t i = 0; i < from[k]->dumps.count; i++) {
      if (strcmp(from[k]->dumps.data[i].step, step) != 0) continue;
      *out_text = from[k]->dumps.data[i].text;
      return LW_OK;
    }
  }
  *out_text = "";
  return LW_STATUS_NOT_FOUND;
}
