/* plans.c: plans in the cache, and plan files. */
#include "api/plans.h"

#include <string.h>
#include <unistd.h>

#include "api/build_id.h"
#include "device/host.h"

/* The name behind the last slash. */
static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

/* ---- keys ----- */

bool lw__plans_wanted(const lw_options *options) {
  char build[65];
  lw__build_id(build);
  bool states = options->states.count > 0 || options->find_states; /* are not part of a plan */
  return options->plans && options->cache_folder != NULL && options->dump_steps.count == 0 &&
         build[0] != '\0' && !states;
}

/* Everything but the model's bytes. False: the cache cannot have such a plan yet. */
static bool plan_key(const lw_model *model, const lw_options *options, lw_cache *cache,
                     lw_hash content, lw_hash *out) {
  char build[65];
  lw_build_options compiler = lw__model_build_options(model, options);
  lw_hash identity;
  bool gpu = model->profile.kind == LW_DEVICE_CUDA;
  if (!(gpu ? lw__build_known_cuda(&compiler, cache, &identity)
            : lw__build_known_cpu(&compiler, cache, &identity))) {
    return false;
  }
  lw__build_id(build);
  lw_hash key = lw__hash_bytes(build, strlen(build), (lw_hash){LW_PLAN_FORMAT, 5});
  key = lw__hash_bytes(&content, sizeof content, key);
  key = lw__hash_bytes(&identity, sizeof identity, key);
  key = lw__options_hash(options, key);
  const bool tried = lw__model_tries(model, options);
  key = lw__hash_bytes(&tried, sizeof tried, key);
  const lw_device_profile *profile = &model->profile;
  key = lw__hash_bytes(profile->name, strlen(profile->name), key);
  /* Numbers behind the name: what padding there is is copied with them. */
  size_t first = offsetof(lw_device_profile, kind);
  *out = lw__hash_bytes((const char *)profile + first, sizeof *profile - first, key);
  return true;
}

/* ---- from the cache ----- */

typedef struct plan_files { /* of the model that a plan is looked for */
  const char *path;         /* others are mapped from its folder ... */
  const lw_graph *graph;    /* ... unless they were imported already */
  lw_file_map main;
  lw_hash hash; /* of |main| */
} plan_files;

static lw_status keep_map(lw_model *model, const lw_file_map *map) {
  return lw_vec_push(&model->plan_maps, *map);
}

/* Maps the model's other files and attaches them. NOT_FOUND: they are not what they were. */
static lw_status attach_others(lw_model *model, const char *path) {
  lw_plan_file *file = &model->plan_file;
  lw_diag unheard = {0};
  lw_status status = LW_OK;
  const char *dir = NULL;
  size_t length = (size_t)(base_name(path) - path);
  if (length == 0) {
    status = lw__arena_strndup(&model->arena, ".", 1, &dir);
  } else {
    status = lw__arena_strndup(&model->arena, path, length, &dir);
  }
  for (uint32_t i = 1; status == LW_OK && i < file->source_count; i++) {
    lw_file_map map = {0};
    const char *name = file->sources[i].name;
    status = lw__file_map_beneath(dir, lw__str_of(name), &unheard, &map);
    if (status == LW_OK) status = keep_map(model, &map);
    if (status == LW_OK) {
      status = lw__plan_file_attach(file, i, map.data, map.bytes, NULL, name, &unheard);
    }
  }
  lw__diag_deinit(&unheard);
  return status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY ? status : LW_STATUS_NOT_FOUND;
}

static lw_status repeat_messages(lw_model *model) {
  const lw_plan_about *about = &model->plan_file.about;
  for (uint32_t i = 0; i < about->message_count; i++) {
    const lw_message *m = &about->messages[i];
    if (m->severity == LW_SEVERITY_ERROR) continue;
    lw__note(&model->diag, m->severity, m->where, "%s", m->text);
  }
  return LW_OK;
}

/* The same for files that are mapped already. */
static lw_status attach_imported(lw_plan_file *file, const lw_graph *graph) {
  lw_diag unheard = {0};
  lw_status status = file->source_count == graph->files.count ? LW_OK : LW_STATUS_NOT_FOUND;
  for (uint32_t i = 1; status == LW_OK && i < file->source_count; i++) {
    const lw_file_map *map = &graph->files.data[i];
    bool same = strcmp(graph->file_names.data[i], file->sources[i].name) == 0;
    status = same ? lw__plan_file_attach(file, i, map->data, map->bytes, NULL, "", &unheard)
                  : LW_STATUS_NOT_FOUND;
  }
  lw__diag_deinit(&unheard);
  return status == LW_OK ? LW_OK : LW_STATUS_NOT_FOUND;
}

/* The record |data| as the model's plan. MODEL_INVALID: it is damaged; NOT_FOUND: it is of files
 * that have changed. */
static lw_status use_record(lw_model *model, const plan_files *from, const void *data,
                            size_t bytes) {
  lw_plan_file *file = &model->plan_file;
  lw_diag unheard = {0};
  lw_status status = lw__plan_file_read(data, bytes, "", &unheard, file);
  if (status == LW_OK && file->source_count == 0) status = LW_STATUS_MODEL_INVALID;
  if (status == LW_OK) {
    status =
        lw__plan_file_attach(file, 0, from->main.data, from->main.bytes, &from->hash, "", &unheard);
  }
  if (status == LW_OK) {
    status =
        from->graph == NULL ? attach_others(model, from->path) : attach_imported(file, from->graph);
  }
  if (status == LW_OK) status = lw__plan_file_finish(file, "", &unheard);
  lw__diag_deinit(&unheard);
  if (status == LW_OK) return repeat_messages(model);
  lw__plan_file_deinit(file);
  return status;
}

static lw_status find_with(lw_model *model, const plan_files *from, lw_hash content,
                           const lw_options *options, lw_cache *cache, bool *out_found) {
  lw_hash key;
  const void *data;
  size_t bytes;
  if (!plan_key(model, options, cache, content, &key)) return LW_OK;
  lw_status status = lw__cache_get(cache, "plan", key, &model->arena, &data, &bytes);
  if (status == LW_OK) status = use_record(model, from, data, bytes);
  *out_found = model->from_plan = status == LW_OK;
  if (status == LW_STATUS_NOT_FOUND) return LW_OK;
  if (status != LW_STATUS_MODEL_INVALID && status != LW_STATUS_UNSUPPORTED) return status;
  lw__cache_remove(cache, "plan", key);
  return LW_OK;
}

lw_status lw__plans_find(lw_model *model, const char *path, const lw_options *options,
                         lw_cache *cache, bool *out_found) {
  lw_diag unheard = {0};
  lw_file_map map = {0};
  *out_found = false;
  lw_status status = lw__file_map(path, &unheard, &map);
  lw__diag_deinit(&unheard);
  if (status != LW_OK) return LW_OK;
  status = keep_map(model, &map);
  if (status != LW_OK) {
    lw__file_unmap(&map);
    return status;
  }
  const plan_files from = {
      .path = path, .main = map, .hash = lw__plan_source_hash(map.data, map.bytes)};
  LW_TRY(find_with(model, &from, from.hash, options, cache, out_found));
  if (!*out_found) return LW_OK;
  /* For reports that need the graph. */
  LW_TRY(lw__arena_strndup(&model->arena, path, strlen(path), &model->path));
  return lw__options_clone(options, &model->options);
}

/* A variant is the model's bytes and the shapes of its inputs. */
static lw_hash variant_content(const lw_graph *bound, lw_hash hash) {
  for (uint32_t i = 0; i < bound->inputs.count; i++) {
    const lw_shape *shape = &lw__value(bound, bound->inputs.data[i])->shape;
    hash = lw__hash_bytes(shape->dim, shape->rank * sizeof *shape->dim, hash);
  }
  return hash;
}

lw_status lw__plans_find_variant(lw_model *variant, const lw_graph *files,
                                 const lw_options *options, lw_cache *cache, bool *out_found) {
  *out_found = false;
  if (files->files.count == 0) return LW_OK;
  const lw_file_map main = files->files.data[0];
  const plan_files from = {
      .graph = files, .main = main, .hash = lw__plan_source_hash(main.data, main.bytes)};
  LW_TRY(find_with(variant, &from, variant_content(&variant->graph, from.hash), options, cache,
                   out_found));
  return *out_found ? lw__options_clone(options, &variant->options) : LW_OK;
}

/* ---- into the cache ----- */

static lw_plan_about about_of(const lw_model *model, const lw_host_cpu *cpu, char build[65]) {
  lw__build_id(build);
  bool gpu = lw__model_plan(model)->target == LW_PLAN_CUDA;
  return (lw_plan_about){.version = lw_version(),
                         .build = build,
                         .model = "",
                         .target = model->target,
                         .profile = model->profile.name == NULL ? "" : model->profile.name,
                         .cpu = gpu ? "" : cpu->name,
                         .isa = gpu ? "" : cpu->isa,
                         .fuse = model->fuse,
                         .channels_last = model->channels_last};
}

static lw_status sources_of(const lw_graph *graph, lw_arena *arena, lw_plan_source **out) {
  LW_TRY(lw__arena_alloc(arena, graph->files.count, sizeof **out, out));
  for (uint32_t i = 0; i < graph->files.count; i++) {
    const lw_file_map *map = &graph->files.data[i];
    (*out)[i] = (lw_plan_source){.name = graph->file_names.data[i],
                                 .bytes = map->bytes,
                                 .hash = lw__plan_source_hash(map->data, map->bytes),
                                 .data = map->data};
  }
  return LW_OK;
}

/* |bound|: the graph whose shapes are part of the key, or NULL. */
static lw_status keep(lw_model *model, const lw_graph *graph, const lw_graph *bound,
                      const char *name, const lw_options *options, uint32_t first_message,
                      lw_cache *cache) {
  lw_arena arena = {0};
  lw_text record = {0};
  lw_plan_source *sources = NULL;
  char build[65];
  lw_host_cpu cpu;
  lw_hash key;
  lw__host_cpu(&cpu);
  lw_plan_about about = about_of(model, &cpu, build);
  about.model = base_name(name);
  about.messages = model->diag.messages.data + first_message;
  about.message_count = model->diag.messages.count - first_message;
  lw_status status = sources_of(graph, &arena, &sources);
  /* Of the bytes that were imported, which may not be those that were looked for. */
  lw_hash content = {0};
  if (status == LW_OK) {
    content = bound == NULL ? sources[0].hash : variant_content(bound, sources[0].hash);
  }
  if (status == LW_OK && plan_key(model, options, cache, content, &key)) {
    status =
        lw__plan_file_write(lw__model_plan(model), &about, sources, graph->files.count, &record);
    if (status == LW_OK) {
      (void)!lw__cache_put(cache, "plan", key, name, record.data, record.len);
    }
  }
  lw__text_deinit(&record);
  lw__arena_deinit(&arena);
  return status;
}

lw_status lw__plans_keep(lw_model *model, const char *path, const lw_options *options,
                         uint32_t first_message, lw_cache *cache) {
  return keep(model, &model->graph, NULL, path, options, first_message, cache);
}

lw_status lw__plans_keep_variant(lw_model *variant, const lw_graph *files,
                                 const lw_options *options, uint32_t first_message,
                                 lw_cache *cache) {
  const lw_graph *g = &variant->graph;
  lw_text name = {0};
  if (files->files.count == 0) return LW_OK;
  lw__text_add(&name, "%s", files->file_names.data[0]);
  for (uint32_t i = 0; i < g->inputs.count; i++) {
    const lw_value *value = lw__value(g, g->inputs.data[i]);
    lw__text_add(&name, " %s=", value->name == NULL ? "?" : value->name);
    for (uint32_t d = 0; d < value->shape.rank; d++) {
      lw__text_add(&name, d == 0 ? "%lld" : "x%lld", (long long)value->shape.dim[d]);
    }
  }
  lw_status status = name.status;
  if (status == LW_OK) {
    status = keep(variant, files, g, lw__text_str(&name), options, first_message, cache);
  }
  lw__text_deinit(&name);
  return status;
}

/* ---- plan files ----- */

bool lw__plans_is_file(const char *path) {
  lw_diag unheard = {0};
  lw_file_map map;
  bool is = lw__file_map(path, &unheard, &map) == LW_OK && lw__plan_file_is(map.data, map.bytes);
  lw__file_unmap(&map);
  lw__diag_deinit(&unheard);
  return is;
}

/* Options that say what to compile came too late. */
static lw_status check_options(lw_model *model, const char *path, const lw_options *options) {
  const lw_plan_about *about = &model->plan_file.about;
  const char *late = lw__options_first(options);
  if (late != NULL) {
    return lw__fail(&model->diag, LW_STATUS_USAGE, path,
                    "option %s says how to compile, and this is a compiled plan; give it when the "
                    "model is compiled",
                    late);
  }
  if (options->target == NULL) return LW_OK;
  const char *target = about->target;
  if (strncmp(target, "cuda:", 5) == 0) target += 5;
  if (strcmp(target, options->target) == 0) return LW_OK;
  return lw__fail(&model->diag, LW_STATUS_USAGE, path,
                  "this plan was compiled for %s, not for %s; compile the model again",
                  about->target, options->target);
}

static lw_status check_cpu(lw_model *model, const char *path) {
  const lw_plan_about *about = &model->plan_file.about;
  lw_host_cpu cpu;
  lw__host_cpu(&cpu);
  lw_str lacks = lw__host_cpu_lacks(&cpu, about->isa);
  if (lacks.len == 0) return LW_OK;
  return lw__fail(&model->diag, LW_STATUS_UNSUPPORTED, path,
                  "this plan was compiled for another processor, %s; this one, %s, has no %.*s: "
                  "compile the model again here",
                  about->cpu, cpu.name, (int)lacks.len, lacks.ptr);
}

static lw_status check_device(lw_model *model, const char *path) {
  const lw_plan *plan = &model->plan_file.plan;
  lw_rt_device_info info = {0};
  lw__rt_device_info(model->rt_device, &info);
  bool null = strcmp(info.kind, "null") == 0, cuda = strcmp(info.kind, "cuda") == 0;
  model->device = null ? "null" : cuda ? "cuda:0" : "cpu";
  if (null) return LW_OK;
  bool fits = cuda == (plan->target == LW_PLAN_CUDA);
  if (fits && cuda) {
    fits = plan->arch_specific ? plan->sm_arch == info.sm_arch : plan->sm_arch <= info.sm_arch;
  }
  if (!fits) {
    return lw__fail(&model->diag, LW_STATUS_UNSUPPORTED, path,
                    "this plan was compiled for %s and does not run on device %s (%s): compile the "
                    "model again for it",
                    model->target, model->device, info.name);
  }
  return cuda ? LW_OK : check_cpu(model, path);
}

static lw_status open_device(lw_model *model, const char *path, const lw_options *options) {
  bool gpu = model->plan_file.plan.target == LW_PLAN_CUDA;
  const char *spec = options->device;
  if (strcmp(spec, "auto") == 0) spec = gpu ? "cuda" : "cpu";
  lw_rt_device_options rt = lw__device_options(options);
  lw_status status = lw__rt_device_open(spec, &rt, &model->diag, &model->rt_device);
  if (status != LW_OK) return status;
  LW_TRY(check_device(model, path));
  if (strncmp(spec, "cuda:", 5) != 0) return LW_OK;
  return lw__arena_strndup(&model->arena, spec, strlen(spec), &model->device);
}

lw_status lw__plans_load(lw_model *model, const char *path, const lw_options *options) {
  lw_plan_file *file = &model->plan_file;
  lw_file_map map;
  LW_TRY(lw__file_map(path, &model->diag, &map));
  lw_status status = keep_map(model, &map);
  if (status != LW_OK) {
    lw__file_unmap(&map);
    return status;
  }
  LW_TRY(lw__plan_file_read(map.data, map.bytes, path, &model->diag, file));
  model->from_plan = true;
  model->target = file->about.target;
  model->fuse = file->about.fuse;
  model->channels_last = file->about.channels_last;
  model->profile.name = file->about.profile;
  if (file->source_count != 0) {
    return lw__fail(&model->diag, LW_STATUS_MODEL_INVALID, path,
                    "the plan file is damaged: its weights are not in it");
  }
  LW_TRY(check_options(model, path, options));
  LW_TRY(lw__plan_file_finish(file, path, &model->diag));
  LW_TRY(repeat_messages(model));
  return options->compile_only ? LW_OK : open_device(model, path, options);
}

lw_status lw_model_save(lw_model *model, const char *path) {
  if (model == NULL) return LW_STATUS_USAGE;
  const lw_plan *plan = lw__model_plan(model);
  if (plan == NULL || path == NULL) {
    lw__text_clear(&model->error);
    lw__text_add(&model->error, "lw_model_save: %s",
                 path == NULL ? "path is NULL" : "the model failed to load");
    return LW_STATUS_USAGE;
  }
  if (model->states.count > 0 || model->shapes != NULL) {
    lw__text_clear(&model->error);
    lw__text_add(&model->error, "lw_model_save: a plan file holds no %s",
                 model->shapes != NULL ? "open dimensions (option dim)" : "states (option state)");
    return LW_STATUS_UNSUPPORTED;
  }
  char build[65];
  lw_host_cpu cpu;
  lw_text bytes = {0};
  lw_diag diag = {0};
  lw__host_cpu(&cpu);
  lw_plan_about about = about_of(model, &cpu, build);
  if (model->path != NULL) about.model = base_name(model->path);
  lw_status status = lw__plan_file_write(plan, &about, NULL, 0, &bytes);
  if (status == LW_OK) status = lw__file_write(path, bytes.data, bytes.len, &diag);
  if (status != LW_OK) lw__diag_line(&diag, &model->error);
  lw__text_deinit(&bytes);
  lw__diag_deinit(&diag);
  return status;
}
