/* test_kernels.c: random graphs, fused and unfused, lowered for GPU and CPU, run by the kernel-IR
 * interpreter and held against the oracle's bounds. Usage: test_random_kernels [first seed]
 * [count]; a failing seed is printed and can be given alone. Or test_random_kernels FILE: a graph
 * in text form. With LW_SKIP_PASSES=1 graphs are compiled as they are; with LW_DUMP=1 groups and
 * kernel IR are printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pipeline.h"
#include "lib/kexec.h"
#include "lib/sample.h"

#ifdef __SANITIZE_ADDRESS__
enum { default_count = 250 };
#else
enum { default_count = 3000 };
#endif

static void dump(void *user, const char *step, const char *text) {
  (void)user;
  if (!strcmp(step, "passes") || !strcmp(step, "fuse") || !strcmp(step, "lower"))
    printf("---- after %s\n%s", step, text);
}

static lw_compile_options options_for(const lw_sample *s, const char *profile) {
  lw_compile_options options = {.profile = lw_sample_profile(profile, s->seed),
                                .policy = lw_sample_policy(s->seed)};
  options.sm90_always = s->seed / 2 % 2 == 0;
  options.skip_passes = getenv("LW_SKIP_PASSES") != NULL;
  if (getenv("LW_DUMP") != NULL) options.dump = dump;
  return options;
}

/* 0: all inside their bounds. With |may_refuse| an option that cannot be met is no failure. */
static int run_with(lw_sample *s, const lw_compile_options *options, const char *mode,
                    bool may_refuse, uint64_t *kernels) {
  lw_compiled compiled;
  lw_kexec_result result;
  lw_diag diag = {0};
  lw_status status = lw__compile(&s->graph, options, false, &diag, &compiled);
  bool refused = status == LW_STATUS_USAGE && may_refuse;
  if (status == LW_OK)
    status = lw_kexec_run(&compiled, s->input_data, s->output_data, &diag, &result);
  if (status == LW_OK) *kernels += result.launches;
  lw__compiled_deinit(&compiled);
  if (status != LW_OK && !refused) {
    printf("seed %llu %s: %s\n", (unsigned long long)s->seed, mode, lw_status_name(status));
    lw_sample_print_messages(&diag);
  }
  lw__diag_deinit(&diag);
  if (refused) return 0;
  return status != LW_OK || lw_sample_compare(s, NULL, mode) > 0;
}

static int run_mode(lw_sample *s, const char *profile, bool fuse, uint64_t *kernels) {
  char mode[64];
  snprintf(mode, sizeof mode, "%s %s", profile, fuse ? "fused" : "unfused");
  lw_compile_options options = options_for(s, profile);
  options.fuse.off = !fuse;
  return run_with(s, &options, mode, false, kernels);
}

/* ---- other groups than the cheapest -----------------------------------------------------------*/

enum { most_ids = 64 };

/* Each of the decisions that are |fused| with probability 1/3. */
static uint32_t draw_ids(const lw_fusion *fusion, bool fused, lw_rng *rng, const char **out) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < fusion->decisions.count && count < most_ids; i++) {
    const lw_decision *d = &fusion->decisions.data[i];
    if (d->fused == fused && lw__rng_range(rng, 0, 3) == 0) out[count++] = d->id;
  }
  return count;
}

/* Groups at random: some of the pairs that were fused are forbidden; some alone are forced; one
 * that was not fused is forced. */
static int run_other_groups(lw_sample *s, const char *profile, uint64_t *kernels) {
  const char *forbid[most_ids], *force[most_ids], *one[most_ids];
  lw_compile_options options = options_for(s, profile);
  lw_compiled first;
  lw_rng rng;
  int bad = 0;
  char mode[64];
  lw__rng_seed(&rng, s->seed);
  options.dump = NULL;
  lw_status status = lw__compile(&s->graph, &options, false, NULL, &first);
  if (status == LW_OK) {
    options = options_for(s, profile);
    options.fuse = (lw_fuse_options){.forbid = forbid};
    options.fuse.forbid_count = draw_ids(&first.fusion, true, &rng, forbid);
    snprintf(mode, sizeof mode, "%s some forbidden", profile);
    bad |= run_with(s, &options, mode, false, kernels);
    options.fuse = (lw_fuse_options){.off = true, .force = force};
    options.fuse.force_count = draw_ids(&first.fusion, true, &rng, force);
    snprintf(mode, sizeof mode, "%s some alone forced", profile);
    bad |= run_with(s, &options, mode, true, kernels);
    uint32_t count = draw_ids(&first.fusion, false, &rng, one);
    options.fuse = (lw_fuse_options){.force = one, .force_count = count != 0};
    snprintf(mode, sizeof mode, "%s one forced", profile);
    if (count) bad |= run_with(s, &options, mode, true, kernels);
  }
  lw__compiled_deinit(&first);
  return bad || status != LW_OK;
}

typedef struct totals {
  uint64_t fused, unfused, others, failed, elements, tight;
} totals;

/* Takes |s| over; |status| is what making it came to. */
static void run_sample(lw_sample *s, lw_status status, totals *t) {
  int bad = 0;
  if (status != LW_OK) {
    printf("seed %llu: no sample: %s\n", (unsigned long long)s->seed, lw_status_name(status));
    lw_sample_print_messages(&s->diag);
    bad = 1;
  } else {
    static const char *const profiles[] = {"sm_90a", "cpu"};
    for (int p = 0; p < 2; p++) {
      bad |= run_mode(s, profiles[p], true, &t->fused);
      bad |= run_mode(s, profiles[p], false, &t->unfused);
      if (s->seed % 2) bad |= run_other_groups(s, profiles[p], &t->others);
    }
  }
  t->failed += (uint64_t)bad;
  t->elements += s->elements;
  t->tight += s->tight;
  lw_sample_deinit(s);
}

static void run_seed(uint64_t seed, bool show, totals *t) {
  lw_sample s;
  lw_status status = lw_sample_random(seed, &s);
  if (show && status == LW_OK) lw_sample_print_graph(&s);
  run_sample(&s, status, t);
}

static int run_file(const char *path) {
  lw_sample s;
  totals t = {0};
  lw_status status = lw_sample_file(path, 1, &s);
  run_sample(&s, status, &t);
  printf("%llu failed; %llu kernels fused, %llu unfused\n", (unsigned long long)t.failed,
         (unsigned long long)t.fused, (unsigned long long)t.unfused);
  return t.failed != 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strchr("0123456789", argv[1][0])) return run_file(argv[1]);
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : default_count;
  totals t = {0};
  for (uint64_t seed = first; seed < first + count; seed++) run_seed(seed, argc == 2, &t);
  printf(
      "seeds %llu to %llu: %llu graphs, %llu failed; %llu kernels fused, %llu unfused; %.1f %% of "
      "%llu elements tight\n",
      (unsigned long long)first, (unsigned long long)(first + count - 1), (unsigned long long)count,
      (unsigned long long)t.failed, (unsigned long long)t.fused, (unsigned long long)t.unfused,
      100 * (double)t.tight / (double)(t.elements + 1), (unsigned long long)t.elements);
  if (count >= 100 && t.tight < t.elements / 100 * 90)
    printf("too many bounds are too wide to find anything\n"), t.failed++;
  return t.failed != 0;
}
