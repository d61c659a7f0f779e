/* translate.c: rewrites the few things in generated CUDA C that are no C: linkage, dynamic shared
 * arrays, inline PTX, products on tensor cores. */
#include "standin/translate.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool starts(const char *at, const char *with) {
  return strncmp(at, with, strlen(with)) == 0;
}

static const char *skip_space(const char *at) { return at + strspn(at, " \t\n"); }

/* extern __shared__ [__align__(16)] TYPE NAME[]; */
static const char *put_dynamic(const char *at, lw_text *out) {
  at = skip_space(at + strlen("extern __shared__"));
  if (starts(at, "__align__(")) at = skip_space(strchr(at, ')') + 1);
  const char *end = strchr(at, '[');
  const char *name = end;
  while (name > at && (isalnum((unsigned char)name[-1]) || name[-1] == '_')) name--;
  lw__text_add(out, "%.*s*const %.*s = (%.*s*)standin->dynamic", (int)(name - at), at,
               (int)(end - name), name, (int)(name - at), at);
  return strchr(end, ';');
}

/* The text between the parentheses of |count| operands "c"(expression), as arguments. */
static const char *put_operands(const char *at, lw_text *out) {
  bool first = true;
  while (*at != ':' && *at != ')') {
    at = strchr(at, '(');
    const char *start = ++at;
    for (int depth = 1; depth > 0; at++) depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
    lw__text_add(out, "%s%.*s", first ? "" : ", ", (int)(at - 1 - start), start);
    first = false;
    at = skip_space(at);
    if (*at == ',') at = skip_space(at + 1);
  }
  return at;
}

/* asm("name %0, %1;" : "=f"(r) : "f"(x)) to r = ptx_name(x) */
static const char *put_asm(const char *at, lw_text *out) {
  at = strchr(at, '"') + 1;
  const char *name = at;
  at = strchr(strchr(at, '"') + 1, ':') + 1;
  at = put_operands(skip_space(at), out);
  lw__text_add(out, " = ptx_");
  for (; *name != ' '; name++) lw__text_add(out, "%c", *name == '.' ? '_' : *name);
  lw__text_add(out, "(");
  if (*at == ':') at = put_operands(skip_space(at + 1), out);
  lw__text_add(out, ")");
  return at + 1;
}

/* The end of a helper that shim.h has: "LW_HELPER void lw_tc_NAME(..) { .. }", or NULL. */
static const char *skip_helper(const char *at) {
  if (!starts(at, "LW_HELPER void lw_tc_")) return NULL;
  const char *end = strchr(at, '{');
  for (int depth = 0; *end != '\0'; end++) {
    depth += *end == '{' ? 1 : *end == '}' ? -1 : 0;
    if (depth == 0) return end + 1;
  }
  return NULL;
}

static void put_body(const char *source, lw_text *out) {
  const char *from = source;
  for (const char *at = source; *at != '\0';) {
    const char *next = NULL;
    bool begins = at == source || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
    const char *skipped = begins ? skip_helper(at) : NULL;
    if (skipped != NULL) {
      lw__text_add_n(out, from, (size_t)(at - from));
      next = skipped;
    } else if (begins && (starts(at, "extern \"C\"") || starts(at, "extern __shared__") ||
                          starts(at, "asm("))) {
      lw__text_add_n(out, from, (size_t)(at - from));
      if (starts(at, "asm(")) {
        next = put_asm(at, out);
      } else if (starts(at, "extern __")) {
        next = put_dynamic(at, out);
      } else {
        next = at + strlen("extern \"C\"");
      }
    }
    if (next == NULL) {
      at++;
    } else {
      at = from = next;
    }
  }
  lw__text_add(out, "%s\n", from);
}

/* The parameters in |list| without their names are the types to cast to. Tensor maps come last and
 * stand in the words themselves. */
static int put_arguments(const char *list, const char *end, int *out_maps, lw_text *out) {
  static const char map[] = "lw_tensor_map ";
  int count = 0;
  *out_maps = 0;
  while (skip_space(list) < end) {
    const char *comma = memchr(list, ',', (size_t)(end - list));
    const char *stop = comma == NULL ? end : comma;
    const char *name = stop;
    while (name > list && (isalnum((unsigned char)name[-1]) || name[-1] == '_')) name--;
    lw__text_add(out, "%s", count == 0 ? "" : ", ");
    if (memmem(list, (size_t)(name - list), map, sizeof map - 1) != NULL)
      lw__text_add(out, "*(const lw_tensor_map *)&p[%d]", count + 15 * (*out_maps)++);
    else
      lw__text_add(out, "(%.*s)p[%d]", (int)(name - list), list, count);
    count++;
    list = comma == NULL ? end : comma + 1;
  }
  return count;
}

static bool threads_meet(const char *body, const char *end) {
  static const char *const words[] = {"__sync",     "__shfl",     "lw_warp_", "lw_block_",
                                      "lw_shuffle", "lw_tc_frag", "lw_tc_mma"};
  for (size_t i = 0; i < LW_ARRAY_COUNT(words); i++) {
    if (memmem(body, (size_t)(end - body), words[i], strlen(words[i])) != NULL) return true;
  }
  return false;
}

static void put_kernels(const char *source, lw_text *out) {
  static const char start[] = "__global__ void ";
  for (const char *at = source; (at = strstr(at, start)) != NULL;) {
    at += sizeof start - 1;
    int bounds = 1024;
    if (starts(at, "__launch_bounds__(")) {
      bounds = atoi(at + strlen("__launch_bounds__("));
      at = skip_space(strchr(at, ')') + 1);
    }
    const char *open = strchr(at, '('), *close = strchr(open, ')');
    int name_length = (int)(open - at);
    lw__text_add(out,
                 "__attribute__((visibility(\"default\"))) void standin_call_%.*s(const unsigned "
                 "long *p) { %.*s(",
                 name_length, at, name_length, at);
    int maps, count = put_arguments(open + 1, close, &maps, out);
    const char *end = strstr(close, start);
    bool meet = threads_meet(close, end == NULL ? close + strlen(close) : end);
    lw__text_add(out,
                 "); }\n__attribute__((visibility(\"default\"))) const int standin_facts_%.*s[4] = "
                 "{%d, %d, %d, %d};\n__attribute__((visibility(\"default\"))) const char "
                 "standin_name_%.*s[] = \"%.*s\";\n",
                 name_length, at, count, bounds, meet, maps, name_length, at, name_length, at);
    at = close;
  }
}

void lw_standin_translate(const char *source, lw_text *out) {
  lw_text plain = {0};
  lw_standin_put_products(source, &plain);
  put_body(lw__text_str(&plain), out);
  put_kernels(lw__text_str(&plain), out);
  if (plain.status != LW_OK) out->status = plain.status;
  lw__text_deinit(&plain);
}
