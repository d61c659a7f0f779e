/* unit.h: what every test of base includes first. */
#ifndef LW_TESTS_UNIT_BASE_UNIT_H
#define LW_TESTS_UNIT_BASE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

#define assert_ok(expr) assert_int_equal((expr), LW_OK)

static inline uint64_t unit_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

#endif
