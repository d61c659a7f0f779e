/* sample.c: random inputs, the oracle's answer, comparison. */
#include "lib/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const lw_resource_policy *lw_sample_policy(uint64_t seed) {
  return lw__resource_policy_find(seed % 7 == 6   ? "conservative"
                                  : seed % 5 == 4 ? "classic"
                                                  : "opt-in");
}

const lw_device_profile *lw_sample_profile(const char *name, uint64_t seed) {
  static const uint32_t registers[3][2] = {{32, 16}, {64, 32}, {16, 32}};
  static lw_device_profile cpus[3];
  const lw_device_profile *found = lw__device_profile_find(name);
  if (found->kind != LW_DEVICE_CPU) return found;
  lw_device_profile *cpu = &cpus[seed / 4 % 3];
  *cpu = *found;
  cpu->vector_bytes = registers[seed / 4 % 3][0];
  cpu->vector_registers = registers[seed / 4 % 3][1];
  return cpu;
}

lw_rgraph_options lw_sample_options(uint64_t seed) {
  bool heavy = seed >= 1000000;
  bool wide = heavy || seed % 8 >= 4, large = heavy || seed % 32 == 29;
  return (lw_rgraph_options){.nodes = large ? 70 : (wide ? 8u : 3u) + (uint32_t)(seed % 12),
                             .contractions = seed % 3 != 0,
                             .narrow = seed % 2 != 0,
                             .wide = wide};
}

static size_t bytes_of(const lw_graph *g, lw_value_id v) {
  return (size_t)lw__shape_numel(&lw__value(g, v)->shape) *
         lw_dtype_size_bytes(lw__value(g, v)->dtype);
}

static lw_status allocate(lw_sample *s) {
  const lw_graph *g = &s->graph;
  LW_TRY(lw__arena_alloc(&s->arena, g->inputs.count + 1u, sizeof *s->inputs, &s->inputs));
  LW_TRY(lw__arena_alloc(&s->arena, g->inputs.count + 1u, sizeof *s->input_data, &s->input_data));
  LW_TRY(lw__arena_alloc(&s->arena, g->inputs.count + 1u, sizeof *s->input_bytes, &s->input_bytes));
  LW_TRY(
      lw__arena_alloc(&s->arena, g->outputs.count + 1u, sizeof *s->output_data, &s->output_data));
  LW_TRY(
      lw__arena_alloc(&s->arena, g->outputs.count + 1u, sizeof *s->output_bytes, &s->output_bytes));
  LW_TRY(lw__arena_alloc(&s->arena, g->outputs.count + 1u, sizeof *s->want, &s->want));
  for (uint32_t i = 0; i < g->inputs.count; i++) {
    s->input_bytes[i] = bytes_of(g, g->inputs.data[i]);
    if (s->input_bytes[i]) LW_TRY(lw__mem_resize(&s->input_data[i], s->input_bytes[i]));
  }
  for (uint32_t i = 0; i < g->outputs.count; i++) {
    s->output_bytes[i] = bytes_of(g, g->outputs.data[i]);
    if (s->output_bytes[i]) LW_TRY(lw__mem_resize(&s->output_data[i], s->output_bytes[i]));
  }
  return LW_OK;
}

static void count_tight(lw_sample *s) {
  for (uint32_t i = 0; i < s->graph.outputs.count; i++) {
    const lw_oracle_tensor *t = &s->want[i];
    for (int64_t k = 0; k < t->count; k++) {
      double size = t->f && isfinite(t->f[k]) ? fabs(t->f[k]) : 0;
      s->tight += t->f ? t->bound[k] <= 0.02 * (1 + size) : t->bound[k] == 0;
    }
    s->elements += (uint64_t)t->count;
  }
}

static lw_status finish(lw_sample *s) {
  lw_rng rng;
  lw__rng_seed(&rng, s->seed * 77 + 5);
  LW_TRY(lw__graph_verify(&s->graph, &s->diag));
  LW_TRY(allocate(s));
  for (uint32_t i = 0; i < s->graph.inputs.count; i++) {
    const lw_value *v = lw__value(&s->graph, s->graph.inputs.data[i]);
    lw_random_fill(&rng, v->dtype, s->input_data[i], lw__shape_numel(&v->shape));
    s->inputs[i] = (lw_host_tensor){v->dtype, v->shape, s->input_data[i]};
  }
  lw_sample_poison_outputs(s);
  LW_TRY(lw__interp_run(&s->graph, LW_INTERP_IDEAL, s->inputs, &s->arena, 0, &s->diag, s->want));
  count_tight(s);
  return LW_OK;
}

lw_status lw_sample_random(uint64_t seed, lw_sample *out) {
  lw_rgraph_options options = lw_sample_options(seed);
  memset(out, 0, sizeof *out);
  out->seed = seed;
  LW_TRY(lw__graph_init(&out->graph, &out->diag));
  LW_TRY(lw_rgraph_make(seed, &options, &out->graph));
  return finish(out);
}

static lw_status parse(lw_str text, uint64_t seed, lw_sample *out) {
  out->seed = seed;
  LW_TRY(lw__graph_parse(text, &out->diag, &out->graph));
  out->graph.diag = &out->diag;
  return finish(out);
}

lw_status lw_sample_text(const char *text, uint64_t seed, lw_sample *out) {
  memset(out, 0, sizeof *out);
  return parse(lw__str_of(text), seed, out);
}

lw_status lw_sample_file(const char *path, uint64_t seed, lw_sample *out) {
  lw_file_map map;
  memset(out, 0, sizeof *out);
  LW_TRY(lw__file_map(path, &out->diag, &map));
  lw_status status = parse(lw__str((const char *)map.data, map.bytes), seed, out);
  lw__file_unmap(&map);
  return status;
}

lw_status lw_sample_graph(lw_graph *graph, uint64_t seed, lw_sample *out) {
  memset(out, 0, sizeof *out);
  out->seed = seed;
  out->graph = *graph;
  memset(graph, 0, sizeof *graph);
  out->graph.diag = &out->diag;
  return finish(out);
}

void lw_sample_deinit(lw_sample *s) {
  for (uint32_t i = 0; i < s->graph.inputs.count && s->input_data; i++)
    lw__mem_free(s->input_data[i]);
  for (uint32_t i = 0; i < s->graph.outputs.count && s->output_data; i++)
    lw__mem_free(s->output_data[i]);
  lw__graph_deinit(&s->graph);
  lw__arena_deinit(&s->arena);
  lw__diag_deinit(&s->diag);
  memset(s, 0, sizeof *s);
}

void lw_sample_poison_outputs(const lw_sample *s) {
  for (uint32_t i = 0; i < s->graph.outputs.count; i++)
    if (s->output_bytes[i]) memset(s->output_data[i], 0xff, s->output_bytes[i]);
}

void lw_sample_print_graph(const lw_sample *s) {
  lw_text text = {0};
  lw__graph_print(&s->graph, true, &text);
  printf("%s", lw__text_str(&text));
  lw__text_deinit(&text);
}

void lw_sample_print_messages(const lw_diag *diag) {
  for (uint32_t i = 0; i < diag->messages.count; i++)
    printf("    %s: %s\n", diag->messages.data[i].where, diag->messages.data[i].text);
}

uint32_t lw_sample_compare(const lw_sample *s, void *const *outputs, const char *mode) {
  uint32_t bad = 0;
  for (uint32_t i = 0; i < s->graph.outputs.count; i++) {
    lw_compare c;
    lw__interp_compare(&s->want[i], (outputs ? outputs : s->output_data)[i], &c);
    if (!c.bad) continue;
    printf(
        "seed %llu %s: output %u: %lld of %lld outside; element %lld is %.9g, should be %.9g +- "
        "%.3g\n",
        (unsigned long long)s->seed, mode, i, (long long)c.bad, (long long)c.count,
        (long long)c.worst_index, c.worst_got, c.worst_want, c.worst_bound);
    bad++;
  }
  return bad;
}
