/* Options: every row takes what it should, refuses the rest with a message, and forgets nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/options.h"

static lw_options *make(void) {
  lw_options *o = NULL;
  assert_int_equal(lw_options_create(&o), LW_OK);
  return o;
}

static void takes_what_it_should(void **state) {
  (void)state;
  static const char *const good[][2] = {{"device", "auto"},
                                        {"device", "cuda:3"},
                                        {"device", "null"},
                                        {"target", "cpu"},
                                        {"target", "cuda:sm_90a"},
                                        {"target", "sm_80"},
                                        {"fuse", "off"},
                                        {"force", "f0123456789ab"},
                                        {"forbid", "f1,f2"},
                                        {"policy", "classic"},
                                        {"threads", "0"},
                                        {"streams", "0"},
                                        {"streams", "8"},
                                        {"streams", "dag"},
                                        {"graphs", "off"},
                                        {"early", "on"},
                                        {"dim", "batch=0"},
                                        {"dim", "a=b=7"},
                                        {"shape", "x=2x3"},
                                        {"shape", "x=[2, 3]"},
                                        {"shape", "x="},
                                        {"value", "a=b=1"},
                                        {"value", "s="},
                                        {"value", "s= 2, -1.5,3e3,18446744073709551615,inf"},
                                        {"channels_last", "on"},
                                        {"cache", ""},
                                        {"cc", "gcc -m64"},
                                        {"path", ""},
                                        {"nvrtc", "/x"},
                                        {"cuda", "/y"},
                                        {"dump", "after:import,after:passes"},
                                        {"plans", "off"},
                                        {"cache_limit", "0"},
                                        {"cache_limit", "500M"},
                                        {"shape", "x=2,3"},
                                        {"shape", "x=[]"},
                                        {"shape", "x= [ 2 , 3 ] "},
                                        {"shape", "x="},
                                        {"compile_only", "on"}};
  lw_options *o = make();
  for (size_t i = 0; i < LW_ARRAY_COUNT(good); i++) {
    if (lw_options_set(o, good[i][0], good[i][1]) != LW_OK) fail_msg("%s", lw_options_error(o));
    assert_string_equal(lw_options_error(o), "");
  }
  assert_string_equal(o->target, "sm_80");
  assert_int_equal(o->fuse, false);
  assert_int_equal(o->streams, LW_SCHED_DAG);
  assert_int_equal(o->graphs, false);
  assert_int_equal(o->force.count, 1);
  assert_int_equal(o->forbid.count, 2);
  assert_string_equal(o->dims.data[1].name, "a=b");
  assert_int_equal(o->shapes.count, 1); /* the last one replaced the others */
  assert_int_equal(o->shapes.data[0].rank, 0);
  assert_string_equal(o->values.data[0].name, "a=b");
  assert_int_equal(o->values.count, 2);
  const int64_t integers[] = {2, -1, 3000, -1, INT64_MAX}; /* an u64 keeps its bits */
  const double floats[] = {2, -1.5, 3000, 18446744073709551615.0, INFINITY};
  assert_int_equal(o->values.data[1].count, LW_ARRAY_COUNT(integers));
  assert_memory_equal(o->values.data[1].integers, integers, sizeof integers);
  assert_memory_equal(o->values.data[1].floats, floats, sizeof floats);
  assert_string_equal(o->dump_steps.data[1], "passes");
  assert_string_equal(o->path, "");
  assert_null(o->cache_folder);
  assert_int_equal(o->cache_limit, 500 << 20);
  lw_options_destroy(o);
}

static lw_hash hash_with(const char *name, const char *value) {
  lw_options *o = make();
  assert_int_equal(lw_options_set(o, "dim", "batch=2"), LW_OK);
  if (name != NULL) assert_int_equal(lw_options_set(o, name, value), LW_OK);
  lw_hash hash = lw__options_hash(o, (lw_hash){1, 2});
  lw_options_destroy(o);
  return hash;
}

/* What decides what is compiled is part of a plan's key, where to run and build is not. */
static void tells_what_is_compiled(void **state) {
  (void)state;
  static const char *const what[][2] = {
      {"fuse", "off"}, {"policy", "classic"}, {"dim", "batch=3"},     {"shape", "x=2x3"},
      {"force", "f1"}, {"forbid", "f1"},      {"channels_last", "on"}};
  static const char *const aside[][2] = {{"device", "cpu"}, {"threads", "3"}, {"cache", "/x"},
                                         {"path", "/y"},    {"cc", "gcc"},    {"plans", "on"}};
  const lw_hash plain = hash_with(NULL, NULL);
  for (size_t i = 0; i < LW_ARRAY_COUNT(what); i++) {
    assert_false(lw__hash_eq(hash_with(what[i][0], what[i][1]), plain));
  }
  for (size_t i = 0; i < LW_ARRAY_COUNT(aside); i++) {
    assert_true(lw__hash_eq(hash_with(aside[i][0], aside[i][1]), plain));
  }
  lw_options *o = make();
  assert_int_equal(lw_options_set(o, "device", "cpu"), LW_OK);
  assert_null(lw__options_first(o));
  assert_int_equal(lw_options_set(o, "fuse", "off"), LW_OK);
  assert_string_equal(lw__options_first(o), "fuse");
  lw_options_destroy(o);
}

static void refuses_the_rest(void **state) {
  (void)state;
  static const char *const bad[][2] = {{"device", ""},
                                       {"device", "cuda:"},
                                       {"device", "cuda:-1"},
                                       {"device", "gpu"},
                                       {"device", "cuda:1x"},
                                       {"target", "sm_1"},
                                       {"target", ""},
                                       {"fuse", "yes"},
                                       {"force", "x12"},
                                       {"force", ""},
                                       {"forbid", "f1,,f2"},
                                       {"policy", "bold"},
                                       {"threads", "-1"},
                                       {"threads", "99999"},
                                       {"streams", "9"},
                                       {"streams", "-1"},
                                       {"streams", "auto"},
                                       {"graphs", "0"},
                                       {"dim", "batch"},
                                       {"dim", "=3"},
                                       {"dim", "b=-1"},
                                       {"dim", "b=3000000000"},
                                       {"dim", "b=3x"},
                                       {"shape", "x"},
                                       {"shape", "x=2xy"},
                                       {"shape", "x=-2"},
                                       {"dump", "passes"},
                                       {"dump", "after:"},
                                       {"shape", "x=1x1x1x1x1x1x1x1x1x1x1x1x1"},
                                       {"shape", "x=3xx3"},
                                       {"shape", "x=3x"},
                                       {"shape", "x=x3"},
                                       {"shape", "x=3 3"},
                                       {"shape", "x=[3"},
                                       {"shape", "x=3]"},
                                       {"shape", "x=[3]4"},
                                       {"cache_limit", "M"},
                                       {"cache_limit", "1.5G"},
                                       {"cache_limit", "1GB"},
                                       {"cache_limit", "99999999999T"},
                                       {"plans", "1"},
                                       {"value", "x"},
                                       {"value", "x=1x2"},
                                       {"value", "x=1,,2"},
                                       {"value", "x=1,"},
                                       {"compile_only", "1"},
                                       {"colour", "red"}};
  lw_options *o = make();
  for (size_t i = 0; i < LW_ARRAY_COUNT(bad); i++) {
    lw_status status = lw_options_set(o, bad[i][0], bad[i][1]);
    if (status != LW_STATUS_USAGE) print_error("%s=%s\n", bad[i][0], bad[i][1]);
    assert_int_equal(status, LW_STATUS_USAGE);
    assert_non_null(strstr(lw_options_error(o), bad[i][0]));
  }
  assert_string_equal(o->device, "auto");
  assert_int_equal(o->forbid.count, 0);
  assert_int_equal(o->dims.count + o->shapes.count + o->values.count + o->dump_steps.count, 0);
  lw_options_destroy(o);
}

static void null_is_a_usage_error(void **state) {
  (void)state;
  lw_options *o = make();
  assert_int_equal(lw_options_create(NULL), LW_STATUS_USAGE);
  assert_int_equal(lw_options_set(NULL, "fuse", "on"), LW_STATUS_USAGE);
  assert_int_equal(lw_options_set(o, NULL, "on"), LW_STATUS_USAGE);
  assert_int_equal(lw_options_set(o, "fuse", NULL), LW_STATUS_USAGE);
  assert_non_null(lw_options_error(NULL));
  lw_options_destroy(o);
  lw_options_destroy(NULL);
}

static void survives_a_lack_of_memory(void **state) {
  (void)state;
  for (uint64_t n = 1; n < 12; n++) {
    lw__mem_fail_at(n);
    lw_options *o = NULL;
    lw_status status = lw_options_create(&o);
    if (status == LW_OK) status = lw_options_set(o, "shape", "x=2x3");
    if (status == LW_OK) status = lw_options_set(o, "force", "f1,f2,f3");
    lw__mem_fail_at(0);
    assert_true(status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY);
    lw_options_destroy(o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_what_it_should),   cmocka_unit_test(refuses_the_rest),
      cmocka_unit_test(null_is_a_usage_error),  cmocka_unit_test(survives_a_lack_of_memory),
      cmocka_unit_test(tells_what_is_compiled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
