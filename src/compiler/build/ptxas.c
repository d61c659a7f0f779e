/* ptxas.c: reads what the assembler says about kernels. */
#include <string.h>

#include "compiler/build/nvrtc.h"

/* The next line of |*rest|, without its end. */
static bool ptxas_line(lw_str *rest, lw_str *out_line) {
  if (rest->len == 0) return false;
  const char *end = memchr(rest->ptr, '\n', rest->len);
  size_t length = end == NULL ? rest->len : (size_t)(end - rest->ptr);
  *out_line = lw__str(rest->ptr, length);
  size_t skip = end == NULL ? length : length + 1;
  *rest = lw__str(rest->ptr + skip, rest->len - skip);
  return true;
}

static const char *ptxas_find(lw_str text, const char *what) {
  return text.len == 0 ? NULL : memmem(text.ptr, text.len, what, strlen(what));
}

/* The number that stands right before |what|, as in "40 bytes spill stores". */
static bool ptxas_number_before(lw_str line, const char *what, uint32_t *out) {
  const char *at = ptxas_find(line, what);
  if (at == NULL) return false;
  const char *digit = at;
  while (digit > line.ptr && digit[-1] >= '0' && digit[-1] <= '9') digit--;
  if (digit == at) return false;
  uint64_t value = 0;
  for (; digit < at && value < UINT32_MAX; digit++) value = value * 10 + (uint64_t)(*digit - '0');
  *out = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
  return true;
}

/* "Compiling entry function 'NAME' for": the kernel that the lines after it are about. */
static bool ptxas_entry(lw_str line, lw_str *out_name) {
  static const char start[] = "entry function '";
  const char *at = ptxas_find(line, start);
  if (at == NULL) return false;
  at += sizeof start - 1;
  size_t left = line.len - (size_t)(at - line.ptr);
  const char *end = memchr(at, '\'', left);
  if (end == NULL) return false;
  *out_name = lw__str(at, (size_t)(end - at));
  return true;
}

bool lw__ptxas_report(lw_str log, const char *entry, lw_build_report *out) {
  *out = (lw_build_report){0};
  bool here = false, found = false;
  for (lw_str line; ptxas_line(&log, &line);) {
    lw_str name;
    if (ptxas_find(line, "Compiling") != NULL && ptxas_entry(line, &name)) {
      here = lw__str_is(name, entry);
      continue;
    }
    if (!here) continue;
    uint32_t value;
    /* Functions that were not inlined have lines of their own below their kernel's. */
    if (ptxas_number_before(line, " bytes spill stores", &value)) out->spill_bytes += value;
    if (ptxas_number_before(line, " bytes smem", &value)) out->shared_bytes = value;
    if (ptxas_number_before(line, " registers", &value)) {
      out->registers = value;
      found = true;
    }
  }
  return found;
}

void lw__ptxas_strip(lw_str log, lw_text *out) {
  for (lw_str line; ptxas_line(&log, &line);) {
    bool routine =
        ptxas_find(line, "ptxas info") == line.ptr ||
        (ptxas_find(line, "ptxas  ") == line.ptr && ptxas_find(line, " bytes stack frame") != NULL);
    if (routine || line.len == 0 || line.ptr[0] == '\0') continue;
    lw__text_add_n(out, line.ptr, line.len);
    lw__text_add_n(out, "\n", 1);
  }
}

const char *lw__ptxas_fatal(lw_str log) {
  static const char *const numbers[] = {"C7508", "C7510", "C7511", "C7520"};
  for (size_t i = 0; i < LW_ARRAY_COUNT(numbers); i++) {
    if (ptxas_find(log, numbers[i]) != NULL) return numbers[i];
  }
  return NULL;
}
