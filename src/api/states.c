/* states.c: see states.h. */
#include "api/states.h"

#include <string.h>

#include "api/strided.h"

/* Runs between two moves of an appended state, unless the options give it room. */
#define STATES_MOVE_EVERY 256

/* ---- which there are ----- */

static bool begins(const char *text, const char *with, const char **out_rest) {
  size_t n = strlen(with);
  if (strncmp(text, with, n) != 0) return false;
  *out_rest = text + n;
  return true;
}

/* past_k and present_k; past_key_values.0.key and present.0.key. */
static bool names_pair(const char *input, const char *output) {
  const char *a, *b;
  bool past = begins(input, "past_key_values", &a) || begins(input, "past", &a);
  bool present = begins(output, "present_key_values", &b) || begins(output, "present", &b);
  return past && present && strcmp(a, b) == 0;
}

static lw_status add_state(lw_model *model, const char *input, const char *output) {
  lw_state state;
  LW_TRY(lw__state_find(&model->graph, input, output, &model->diag, &state));
  for (uint32_t i = 0; i < model->states.count; i++) {
    const lw_state *other = &model->states.data[i];
    if (other->input != state.input && other->output != state.output) continue;
    if (other->input == state.input && other->output == state.output) return LW_OK;
    return lw__fail(&model->diag, LW_STATUS_USAGE, "option state",
                    "'%s' and '%s' belong to another state already", input, output);
  }
  return lw_vec_push(&model->states, state);
}

lw_status lw__model_find_states(lw_model *model, const lw_options *options) {
  for (uint32_t i = 0; i < options->states.count; i++) {
    LW_TRY(add_state(model, options->states.data[i].input, options->states.data[i].output));
  }
  for (uint32_t i = 0; options->find_states && i < model->input_count; i++) {
    for (uint32_t k = 0; k < model->output_count; k++) {
      if (!names_pair(model->inputs[i].name, model->outputs[k].name)) continue;
      LW_TRY(add_state(model, model->inputs[i].name, model->outputs[k].name));
    }
  }
  return LW_OK;
}

uint32_t lw__state_of_port(const lw_model *model, uint32_t index, bool is_input) {
  for (uint32_t i = 0; i < model->states.count; i++) {
    const lw_state *s = &model->states.data[i];
    if ((is_input ? s->input : s->output) == index) return i;
  }
  return LW_NONE;
}

/* ---- memory ----- */

static bool appended(const lw_state *state) { return state->axis != LW_NONE; }

static uint64_t info_bytes(const lw_tensor_info *info) {
  uint64_t bytes = lw_dtype_size_bytes(info->dtype);
  for (int d = 0; d < info->rank; d++) bytes *= (uint64_t)info->dims[d];
  return bytes;
}

static uint64_t row_bytes(const lw_model *model, const lw_state *state) {
  const lw_tensor_info *out = &model->outputs[state->output];
  return info_bytes(out) / (uint64_t)(appended(state) ? out->dims[state->axis] : 1);
}

/* Rows that move must not overlap where they go. */
static int64_t room_for(const lw_model *model, const lw_state *state) {
  int64_t least = 2 * state->rows + state->added;
  int64_t wanted = model->state_rows > 0 ? (int64_t)model->state_rows
                                         : state->rows + STATES_MOVE_EVERY * state->added;
  return lw__max_i64(least, wanted);
}

static lw_status clear(const lw_model *model, void *block, uint64_t bytes) {
  void *zeros = NULL;
  LW_TRY(lw__mem_resize(&zeros, (size_t)bytes + 1));
  memset(zeros, 0, (size_t)bytes);
  lw_status status = lw__rt_upload(model->rt_device, block, zeros, (size_t)bytes);
  lw__mem_free(zeros);
  return status;
}

static lw_status open_state(const lw_model *model, const lw_state *state, lw_state_memory *m,
                            lw_diag *diag) {
  m->row_bytes = row_bytes(model, state);
  m->room = appended(state) ? room_for(model, state) : 1;
  uint64_t bytes;
  if (__builtin_mul_overflow(m->row_bytes, (uint64_t)m->room, &bytes)) {
    return LW_STATUS_OUT_OF_MEMORY;
  }
  for (int k = 0; k < (appended(state) ? 1 : 2); k++) {
    lw_status status = lw__rt_alloc(model->rt_device, (size_t)bytes, &m->block[k]);
    if (status == LW_OK) status = clear(model, m->block[k], bytes);
    if (status != LW_OK) {
      return lw__fail(diag, status, model->inputs[state->input].name,
                      "no room for %llu bytes of this state", (unsigned long long)bytes);
    }
  }
  return LW_OK;
}

lw_status lw__states_open(const lw_model *model, lw_diag *diag, lw_state_memory **out) {
  void *memory = NULL;
  size_t bytes = model->states.count * sizeof **out;
  *out = NULL;
  if (bytes == 0) return LW_OK;
  LW_TRY(lw__mem_resize(&memory, bytes));
  memset(memory, 0, bytes);
  *out = memory;
  for (uint32_t i = 0; i < model->states.count; i++) {
    LW_TRY(open_state(model, &model->states.data[i], &(*out)[i], diag));
  }
  return LW_OK;
}

void lw__states_close(const lw_model *model, lw_state_memory *states) {
  for (uint32_t i = 0; states != NULL && i < model->states.count; i++) {
    lw__rt_free(model->rt_device, states[i].block[0]);
    lw__rt_free(model->rt_device, states[i].block[1]);
  }
  lw__mem_free(states);
}

/* ---- running ----- */

static char *row_at(const lw_state_memory *m, int64_t row) {
  return (char *)m->block[0] + (uint64_t)row * m->row_bytes;
}

static lw_status make_room(const lw_model *model, const lw_state *state, lw_state_memory *m,
                           void *stream, bool in_stream, lw_diag *diag) {
  if (m->next + state->rows + state->added <= m->room) return LW_OK;
  size_t bytes = (size_t)state->rows * (size_t)m->row_bytes;
  const char *from = row_at(m, m->next);
  LW_TRY(in_stream ? lw__rt_copy_in_stream(model->rt_device, stream, m->block[0], from, bytes, diag)
                   : lw__rt_copy(model->rt_device, m->block[0], from, bytes, diag));
  m->next = 0;
  return LW_OK;
}

static lw_status bind_state(const lw_model *model, const lw_state *state, lw_state_memory *m,
                            lw_rt_context *rt, void *stream, bool in_stream, lw_diag *diag) {
  void *in, *out;
  size_t in_bytes = (size_t)m->row_bytes, out_bytes = in_bytes;
  if (appended(state)) {
    LW_TRY(make_room(model, state, m, stream, in_stream, diag));
    in = row_at(m, m->next);
    out = row_at(m, m->next + state->rows);
    in_bytes *= (size_t)state->rows;
    out_bytes *= (size_t)state->added;
  } else {
    in = m->block[m->next];
    out = m->block[1 - m->next];
  }
  LW_TRY(lw__rt_bind_input(rt, state->input, in, in_bytes, true));
  return lw__rt_bind_output(rt, state->output, out, out_bytes, true);
}

lw_status lw__states_bind(const lw_model *model, lw_state_memory *states, lw_rt_context *rt,
                          void *stream, bool in_stream, lw_diag *diag) {
  for (uint32_t i = 0; i < model->states.count; i++) {
    LW_TRY(bind_state(model, &model->states.data[i], &states[i], rt, stream, in_stream, diag));
  }
  return LW_OK;
}

void lw__states_step(const lw_model *model, lw_state_memory *states) {
  for (uint32_t i = 0; i < model->states.count; i++) {
    const lw_state *state = &model->states.data[i];
    states[i].at = states[i].next;
    states[i].next = appended(state) ? states[i].next + state->added : 1 - states[i].next;
  }
}

/* ---- values ----- */

static void state_strides(const lw_model *model, const lw_state *state, const lw_tensor_info *info,
                          const int64_t *dims, int64_t *out) {
  if (!appended(state)) {
    lw__strided_packed(info->rank, dims, model->channels_last, out);
    return;
  }
  uint8_t order[LW_MAX_RANK];
  int64_t step = 1;
  lw__state_order(state, (uint32_t)info->rank, order);
  for (int k = info->rank; k-- > 0;) {
    out[order[k]] = step;
    step *= dims[order[k]];
  }
}

typedef struct state_view {   /* the caller's tensor and the state's memory it stands for */
  const lw_tensor_info *info; /* whose shape it has */
  char *memory;
  uint64_t bytes;
  int64_t theirs[LW_MAX_RANK], ours[LW_MAX_RANK];
} state_view;

static bool has_shape(const lw_tensor *tensor, const lw_tensor_info *info) {
  if (tensor->dtype != info->dtype || tensor->rank != info->rank) return false;
  for (int d = 0; d < info->rank; d++) {
    if (tensor->dims[d] != info->dims[d]) return false;
  }
  return true;
}

static lw_status view_of(const lw_model *model, const lw_state *state, const lw_state_memory *m,
                         const lw_tensor *tensor, bool writes, lw_diag *diag, state_view *out) {
  const lw_tensor_info *in = &model->inputs[state->input], *whole = &model->outputs[state->output];
  bool next = has_shape(tensor, in), last = !writes && has_shape(tensor, whole);
  if (!next && !last) {
    return lw__fail(diag, LW_STATUS_USAGE, in->name,
                    "the tensor has not the type and the shape of this state");
  }
  if (tensor->memory != LW_MEMORY_HOST || (tensor->data == NULL && info_bytes(in) > 0)) {
    return lw__fail(diag, LW_STATUS_USAGE, in->name, "the tensor must be in host memory");
  }
  out->info = next ? in : whole;
  out->bytes = info_bytes(out->info);
  if (appended(state)) {
    out->memory = row_at(m, next ? m->next : m->at);
  } else {
    out->memory = m->block[m->next];
  }
  state_strides(model, state, in, out->info->dims, out->ours);
  lw__strided_packed(in->rank, out->info->dims, model->channels_last, out->theirs);
  if (tensor->strides != NULL) {
    memcpy(out->theirs, tensor->strides, (size_t)in->rank * sizeof *out->theirs);
  }
  return LW_OK;
}

static lw_status state_move(const lw_model *model, const lw_state *state, const lw_state_memory *m,
                            const lw_tensor *tensor, bool set, lw_diag *diag) {
  state_view v;
  void *packed = NULL;
  LW_TRY(view_of(model, state, m, tensor, set, diag, &v));
  LW_TRY(lw__mem_resize(&packed, (size_t)v.bytes + 1));
  size_t elem = lw_dtype_size_bytes(v.info->dtype);
  lw_status status = LW_OK;
  if (set) {
    lw__strided_copy(v.info->rank, v.info->dims, elem, packed, v.ours, tensor->data, v.theirs);
    status = lw__rt_upload(model->rt_device, v.memory, packed, (size_t)v.bytes);
  } else {
    status = lw__rt_download(model->rt_device, packed, v.memory, (size_t)v.bytes);
    if (status == LW_OK) {
      lw__strided_copy(v.info->rank, v.info->dims, elem, tensor->data, v.theirs, packed, v.ours);
    }
  }
  lw__mem_free(packed);
  return status;
}

static lw_status state_of_input(const lw_model *model, uint32_t input, lw_diag *diag,
                                uint32_t *out) {
  *out = lw__state_of_port(model, input, true);
  if (*out != LW_NONE) return LW_OK;
  return lw__fail(diag, LW_STATUS_USAGE, "state", "input %u is none (option state)", input);
}

lw_status lw__states_set(const lw_model *model, lw_state_memory *states, uint32_t input,
                         const lw_tensor *tensor, lw_diag *diag) {
  uint32_t i;
  LW_TRY(state_of_input(model, input, diag, &i));
  const lw_state *state = &model->states.data[i];
  states[i].next = states[i].at = 0;
  if (tensor != NULL) return state_move(model, state, &states[i], tensor, true, diag);
  uint64_t rows = appended(state) ? (uint64_t)state->rows : 1;
  return clear(model, states[i].block[0], rows * states[i].row_bytes);
}

lw_status lw__states_get(const lw_model *model, const lw_state_memory *states, uint32_t input,
                         const lw_tensor *tensor, lw_diag *diag) {
  uint32_t i;
  LW_TRY(state_of_input(model, input, diag, &i));
  return state_move(model, &model->states.data[i], &states[i], tensor, false, diag);
}
