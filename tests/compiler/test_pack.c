/* test_pack.c: weights that matrix units cannot copy as they lie are stored once more by the init
 * program, and products and convolutions read them there; what can be copied stays as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/pipeline.h"
#include "lib/kexec.h"
#include "lib/sample.h"

static void check(const char *text, uint32_t copies) {
  static const char *const profiles[] = {"sm_80", "sm_90a"};
  for (size_t p = 0; p < 2; p++) {
    lw_sample sample;
    lw_status status = lw_sample_text(text, 3, &sample);
    if (status != LW_OK) lw_sample_print_messages(&sample.diag);
    assert_int_equal(status, LW_OK);
    lw_compile_options options = {.profile = lw__device_profile_find(profiles[p])};
    lw_compiled compiled;
    lw_kexec_result result;
    assert_int_equal(lw__compile(&sample.graph, &options, false, &sample.diag, &compiled), LW_OK);
    if (compiled.plan.init.count != copies)
      fail_msg("%s: %u copies, not %u\n%s", profiles[p], compiled.plan.init.count, copies, text);
    status = lw_kexec_run(&compiled, sample.input_data, sample.output_data, &sample.diag, &result);
    if (status != LW_OK) lw_sample_print_messages(&sample.diag);
    assert_int_equal(status, LW_OK);
    assert_int_equal(lw_sample_compare(&sample, NULL, profiles[p]), 0);
    lw__compiled_deinit(&compiled);
    lw_sample_deinit(&sample);
  }
}

static void test_matrices(void **state) {
  (void)state;
  check(
      "%x = input f16[40, 64]\n%w = const f16[64, 203] fill(1)\n%y = dot f16[40, 203] %x, "
      "%w\noutput y %y\n",
      1);
  check(
      "%x = input bf16[40, 64]\n%w = const bf16[64, 200] fill(1)\n%y = dot bf16[40, 200] %x, "
      "%w\noutput y %y\n",
      0); /* rows of 400 bytes */
  check(
      "%x = input f16[40, 63]\n%v = const f16[1000, 63] fill(1)\n%w = permute f16[63, 1000] %v "
      "perm=[1, 0]\n%y = dot f16[40, 1000] %x, %w\noutput y %y\n",
      1);
  /* one copy for two products; none of what is no constant */
  check(
      "%x = input f16[40, 64]\n%z = input f16[24, 64]\n%w = const f16[64, 203] fill(1)\n%y = dot "
      "f16[40, 203] %x, %w\n%u = dot f16[24, 203] %z, %w\noutput y %y\noutput u %u\n",
      1);
  check(
      "%x = input f16[40, 64]\n%w = input f16[64, 203]\n%y = dot f16[40, 203] %x, %w\noutput y "
      "%y\n",
      0);
}

static void test_kernels_of_convolutions(void **state) {
  (void)state;
  check(
      "%x = input f16[1, 16, 10, 10]\n%a = const f16[16, 16, 3, 3] fill(1)\n%b = const f16[24, 16, "
      "3, 3] fill(2)\n%u = conv f16[1, 16, 10, 10] %x, %a pad_lo=[1, 1] pad_hi=[1, 1]\n%v = "
      "map.tanh f16[1, 16, 10, 10] %u\n%y = conv f16[1, 24, 8, 8] %v, %b\noutput y %y\n",
      1); /* the image between them has its channels last, the input has not */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matrices),
      cmocka_unit_test(test_kernels_of_convolutions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
