/* dynamic.c: contexts whose tensors may have other shapes in every run. */
#include <string.h>

#include "api/context.h"

typedef struct dynamic_port { /* an input or output as the caller bound it */
  lw_tensor tensor;           /* its dims and strides point at those below */
  int64_t dims[LW_MAX_RANK], strides[LW_MAX_RANK];
  uint64_t serial; /* grows with every binding; 0: not bound */
} dynamic_port;

typedef struct dynamic_entry { /* a shape that was run */
  lw_variant *variant;
  lw_context *context;
  uint64_t *serials; /* per port: the binding that |context| has */
  uint64_t used;
} dynamic_entry;

struct lw_dynamic {
  lw_model *model; /* the context that this belongs to retains it */
  lw_arena memory;
  lw_rt_context_options options;
  dynamic_port *ports; /* inputs, then outputs */
  uint32_t port_count;
  LW_VEC(dynamic_entry) entries;
  dynamic_entry *last;
  int64_t *numbers; /* of the last run */
  uint64_t serial, uses, made;
  bool ready; /* nothing was bound since the last run, which went well */
};

/* ---- life ----- */

static void entry_free(lw_dynamic *d, dynamic_entry *entry) {
  lw_context_destroy(entry->context);
  lw__shapes_release(d->model, entry->variant);
  lw__mem_free(entry->serials);
}

void lw__dynamic_destroy(lw_dynamic *d) {
  if (d == NULL) return;
  for (uint32_t i = 0; i < d->entries.count; i++) entry_free(d, &d->entries.data[i]);
  lw_vec_free(&d->entries);
  lw__rt_arena_release(d->options.arena);
  lw__arena_deinit(&d->memory);
  lw__mem_free(d);
}

static lw_status dynamic_init(lw_dynamic *d) {
  const lw_shapes *shapes = d->model->shapes;
  d->port_count = d->model->input_count + d->model->output_count;
  LW_TRY(lw__arena_alloc(&d->memory, d->port_count, sizeof *d->ports, &d->ports));
  LW_TRY(lw__arena_alloc(&d->memory, shapes->symbol_count, sizeof *d->numbers, &d->numbers));
  return lw__rt_arena_create(d->model->rt_device, &d->options.arena);
}

lw_status lw__dynamic_create(lw_model *model, const lw_rt_context_options *options,
                             lw_dynamic **out) {
  void *memory = NULL;
  *out = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_dynamic)));
  lw_dynamic *d = memory;
  *d = (lw_dynamic){.model = model, .options = {.priority = options->priority}};
  lw_status status = dynamic_init(d);
  if (status == LW_OK) {
    *out = d;
  } else {
    lw__dynamic_destroy(d);
  }
  return status;
}

/* ---- binding ----- */

static const lw_tensor_info *port_info(const lw_dynamic *d, uint32_t port) {
  const lw_model *m = d->model;
  return port < m->input_count ? &m->inputs[port] : &m->outputs[port - m->input_count];
}

static lw_status port_refuse(const lw_dynamic *d, uint32_t port, lw_diag *diag, const char *what) {
  bool input = port < d->model->input_count;
  lw_text where = {0};
  lw__text_add(&where, "%s %u '%s'", input ? "input" : "output",
               input ? port : port - d->model->input_count, port_info(d, port)->name);
  lw_status status = lw__fail(diag, LW_STATUS_USAGE, lw__text_str(&where), "%s", what);
  lw__text_deinit(&where);
  return status;
}

static lw_status port_misfit(const lw_dynamic *d, uint32_t port, lw_diag *diag,
                             const lw_tensor *tensor, const char *who, int rank,
                             const int64_t *dims) {
  const lw_tensor_info *info = port_info(d, port);
  lw_text text = {0};
  lw__text_add_type(&text, tensor->dtype, tensor->rank, tensor->dims);
  lw__text_add(&text, " was given, %s ", who);
  lw__text_add_type(&text, info->dtype, rank, dims);
  lw_status status = port_refuse(d, port, diag, lw__text_str(&text));
  lw__text_deinit(&text);
  return status;
}

static lw_status port_check(const lw_dynamic *d, uint32_t port, const lw_tensor *tensor,
                            lw_diag *diag) {
  const lw_tensor_info *info = port_info(d, port);
  if (tensor->rank < 0 || tensor->rank > LW_MAX_RANK) {
    return port_refuse(d, port, diag, "the tensor's rank is none that a tensor can have");
  }
  if (tensor->rank > 0 && tensor->dims == NULL) {
    return port_refuse(d, port, diag, "dims of the tensor are NULL");
  }
  bool fits = tensor->dtype == info->dtype;
  /* What a file says of its outputs is a hint: what a run has is compared then. */
  bool hint = d->model->shapes->path != NULL && port >= d->model->input_count;
  if (!hint) fits &= tensor->rank == info->rank;
  for (int k = 0; k < tensor->rank && fits && !hint; k++) {
    fits = tensor->dims[k] >= 0 && (info->dims[k] < 0 || info->dims[k] == tensor->dims[k]);
  }
  return fits ? LW_OK : port_misfit(d, port, diag, tensor, "the model has", info->rank, info->dims);
}

lw_status lw__dynamic_bind(lw_dynamic *d, size_t index, const lw_tensor *tensor, bool is_input,
                           lw_diag *diag) {
  uint32_t port = (uint32_t)index + (is_input ? 0 : d->model->input_count);
  dynamic_port *p = &d->ports[port];
  LW_TRY(port_check(d, port, tensor, diag));
  p->tensor = *tensor;
  size_t bytes = (size_t)tensor->rank * sizeof *p->dims;
  if (bytes > 0) memcpy(p->dims, tensor->dims, bytes);
  if (bytes > 0 && tensor->strides != NULL) memcpy(p->strides, tensor->strides, bytes);
  p->tensor.dims = p->dims;
  p->tensor.strides = tensor->strides != NULL ? p->strides : NULL;
  p->serial = ++d->serial;
  d->ready = false;
  return LW_OK;
}

/* ---- finding the shape of a run ----- */

static lw_status ports_bound(const lw_dynamic *d, uint32_t first, uint32_t end, lw_diag *diag) {
  for (uint32_t i = first; i < end; i++) {
    if (d->ports[i].serial == 0) return port_refuse(d, i, diag, "is not bound");
  }
  return LW_OK;
}

static lw_status solve(lw_dynamic *d, lw_diag *diag) {
  lw_arena scratch = {0};
  const int64_t **dims;
  LW_TRY(ports_bound(d, 0, d->model->input_count, diag));
  lw_status status = lw__arena_alloc(&scratch, d->model->input_count, sizeof *dims, &dims);
  if (status == LW_OK) {
    for (uint32_t i = 0; i < d->model->input_count; i++) dims[i] = d->ports[i].dims;
    status = lw__shapes_solve(d->model, dims, diag, d->numbers);
  }
  lw__arena_deinit(&scratch);
  return status;
}

static void evict(lw_dynamic *d) {
  while (d->entries.count >= d->model->shapes->max_variants) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < d->entries.count; i++) {
      if (d->entries.data[i].used < d->entries.data[oldest].used) oldest = i;
    }
    entry_free(d, &d->entries.data[oldest]);
    d->entries.data[oldest] = d->entries.data[--d->entries.count];
  }
}

/* Takes over the reference to |variant|. */
static lw_status entry_make(lw_dynamic *d, lw_variant *variant, lw_diag *diag,
                            dynamic_entry **out) {
  dynamic_entry entry = {.variant = variant};
  void *serials = NULL;
  evict(d);
  lw_status status = lw_vec_reserve(&d->entries, 1);
  if (status == LW_OK) {
    status = lw__mem_resize(&serials, (d->port_count + 1u) * sizeof *entry.serials);
  }
  if (status == LW_OK) {
    memset(serials, 0, (d->port_count + 1u) * sizeof *entry.serials);
    entry.serials = serials;
    status = lw__context_create_in(variant->model, &d->options, &entry.context);
    if (status != LW_OK) (void)lw__fail(diag, status, "", "%s", lw_context_error(entry.context));
  }
  if (status != LW_OK) {
    entry_free(d, &entry);
    return status;
  }
  d->made++;
  *out = &d->entries.data[d->entries.count++];
  **out = entry;
  return LW_OK;
}

static lw_status entry_of(lw_dynamic *d, lw_diag *diag, dynamic_entry **out) {
  lw_variant *variant;
  *out = d->last = NULL;
  LW_TRY(solve(d, diag));
  LW_TRY(lw__shapes_acquire(d->model, d->numbers, diag, &variant));
  for (uint32_t i = 0; i < d->entries.count; i++) {
    if (d->entries.data[i].variant == variant) *out = &d->entries.data[i];
  }
  if (*out == NULL) {
    LW_TRY(entry_make(d, variant, diag, out));
  } else {
    lw__shapes_release(d->model, variant);
  }
  (*out)->used = ++d->uses;
  return LW_OK;
}

/* ---- running ----- */

static lw_status port_hand_on(lw_dynamic *d, dynamic_entry *entry, uint32_t port, lw_diag *diag) {
  int64_t dims[LW_MAX_RANK];
  uint32_t shorter;
  const dynamic_port *p = &d->ports[port];
  int rank = lw__shapes_port_dims(d->model, entry->variant, port, d->numbers, dims, &shorter);
  size_t bytes = (size_t)rank * sizeof *dims;
  if (p->tensor.rank != rank || (bytes > 0 && memcmp(dims, p->dims, bytes) != 0)) {
    return port_misfit(d, port, diag, &p->tensor, "this run has", rank, dims);
  }
  if (entry->serials[port] == p->serial) return LW_OK;
  bool input = port < d->model->input_count;
  uint32_t index = input ? port : port - d->model->input_count;
  entry->serials[port] = 0;
  lw_status status = lw__context_bind_rows(entry->context, index, &p->tensor, input, shorter);
  if (status != LW_OK) return lw__fail(diag, status, "", "%s", lw_context_error(entry->context));
  entry->serials[port] = p->serial;
  return LW_OK;
}

lw_status lw__dynamic_prepare(lw_dynamic *d, lw_diag *diag, lw_context **out) {
  if (!d->ready) {
    dynamic_entry *entry;
    LW_TRY(entry_of(d, diag, &entry));
    LW_TRY(ports_bound(d, d->model->input_count, d->port_count, diag));
    for (uint32_t i = 0; i < d->port_count; i++) LW_TRY(port_hand_on(d, entry, i, diag));
    d->last = entry;
    d->ready = true;
  }
  *out = d->last->context;
  return LW_OK;
}

lw_status lw__dynamic_output_dims(lw_dynamic *d, size_t index, lw_diag *diag, int *out_rank,
                                  int64_t *out_dims) {
  dynamic_entry *entry;
  uint32_t shorter;
  d->ready = false;
  LW_TRY(entry_of(d, diag, &entry));
  *out_rank =
      lw__shapes_port_dims(d->model, entry->variant, d->model->input_count + (uint32_t)index,
                           d->numbers, out_dims, &shorter);
  return LW_OK;
}

/* ---- statistics ----- */

const lw_context *lw__dynamic_last(const lw_dynamic *d) {
  return d->last == NULL ? NULL : d->last->context;
}

uint64_t lw__dynamic_arena_bytes(const lw_dynamic *d) {
  return lw__rt_arena_bytes(d->options.arena);
}

void lw__dynamic_stats(const lw_dynamic *d, lw_shape_stats *out) {
  lw_shapes *shapes = d->model->shapes;
  (void)pthread_mutex_lock(&shapes->lock);
  *out = (lw_shape_stats){.compiled = shapes->compiled,
                          .kept = shapes->variants.count,
                          .ready = d->entries.count,
                          .made = d->made};
  (void)pthread_mutex_unlock(&shapes->lock);
}
