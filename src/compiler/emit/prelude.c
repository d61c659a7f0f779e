/* prelude.c: finds and prints the helper functions that a generated source uses. */
#include "compiler/emit/prelude.h"

#include <string.h>

#define PRELUDE_MAX_DEPTH 16 /* helpers that use helpers; the tables need 5 */

typedef struct prelude_state {
  const lw_prelude *prelude;
  lw_map seen; /* names looked up so far */
  lw_arena arena;
  lw_text *out;
} prelude_state;

typedef struct prelude_match {
  const lw_helper *helper;
  lw_dtype type, from;
} prelude_match;

/* ---- names ------------------------------------------------------------------------------------*/

static bool prelude_take(lw_str *rest, lw_str text) {
  if (rest->len < text.len || memcmp(rest->ptr, text.ptr, text.len) != 0) return false;
  *rest = lw__str(rest->ptr + text.len, rest->len - text.len);
  return true;
}

/* Takes the suffix of one of |types| off the front of |rest|; it must end there or before '_'. */
static lw_dtype prelude_take_type(lw_str *rest, uint32_t types) {
  for (int t = LW_DTYPE_NONE + 1; t < LW_DTYPE_COUNT; t++) {
    lw_str after = *rest;
    if ((types >> t & 1) == 0 || !prelude_take(&after, lw__str_of(lw_dtype_name((lw_dtype)t))))
      continue;
    if (after.len != 0 && after.ptr[0] != '_') continue;
    *rest = after;
    return (lw_dtype)t;
  }
  return LW_DTYPE_NONE;
}

static bool prelude_row_matches(const lw_helper *row, lw_str name, prelude_match *out) {
  const char *pattern = row->name;
  *out = (prelude_match){row, LW_DTYPE_NONE, LW_DTYPE_NONE};
  while (*pattern != 0) {
    const char *dollar = strchr(pattern, '$');
    size_t plain = dollar == NULL ? strlen(pattern) : (size_t)(dollar - pattern);
    if (!prelude_take(&name, lw__str(pattern, plain))) return false;
    pattern += plain;
    if (dollar == NULL) break;
    bool is_from = pattern[1] == 'f';
    lw_dtype type = prelude_take_type(&name, is_from ? row->from : row->types);
    if (type == LW_DTYPE_NONE) return false;
    *(is_from ? &out->from : &out->type) = type;
    pattern += 2;
  }
  return name.len == 0;
}

static bool prelude_find(const lw_prelude *prelude, lw_str name, prelude_match *out) {
  for (int t = 0; t < 2 && prelude->tables[t] != NULL; t++)
    for (uint32_t r = 0; r < prelude->tables[t]->count; r++)
      if (prelude_row_matches(&prelude->tables[t]->rows[r], name, out)) return true;
  return false;
}

bool lw__prelude_has(const lw_prelude *prelude, const char *name) {
  prelude_match match;
  return prelude_find(prelude, lw__str_of(name), &match);
}

/* ---- text of a row ----------------------------------------------------------------------------*/

typedef struct prelude_int {
  const char *bits, *least, *largest, *low, *high;
} prelude_int;

static const prelude_int prelude_ints[LW_DTYPE_COUNT] = {
    [LW_DTYPE_I8] = {"8", "(-128)", "127", "-0x1p7f", "0x1p7f"},
    [LW_DTYPE_I16] = {"16", "(-32768)", "32767", "-0x1p15f", "0x1p15f"},
    [LW_DTYPE_I32] = {"32", "(-2147483647 - 1)", "2147483647", "-0x1p31f", "0x1p31f"},
    [LW_DTYPE_I64] = {"64", "(-9223372036854775807ll - 1)", "9223372036854775807ll", "-0x1p63f",
                      "0x1p63f"},
    [LW_DTYPE_U8] = {"8", "0", "255", "0.0f", "0x1p8f"},
    [LW_DTYPE_U16] = {"16", "0", "65535", "0.0f", "0x1p16f"},
    [LW_DTYPE_U32] = {"32", "0", "4294967295u", "0.0f", "0x1p32f"},
    [LW_DTYPE_U64] = {"64", "0", "18446744073709551615ull", "0.0f", "0x1p64f"},
};

static const char *prelude_expansion(const lw_prelude *prelude, const prelude_match *match,
                                     char letter) {
  const prelude_int *limits = &prelude_ints[match->type];
  lw_dtype wide = lw_dtype_size_bytes(match->type) == 8 ? LW_DTYPE_U64 : LW_DTYPE_U32;
  switch (letter) {
    case 't': return lw_dtype_name(match->type);
    case 'T': return prelude->type_names[match->type];
    case 'f': return lw_dtype_name(match->from);
    case 'F': return prelude->type_names[match->from];
    case 'U': return prelude->type_names[wide];
    case 'B': return limits->bits;
    case 'L': return limits->least;
    case 'H': return limits->largest;
    case 'l': return limits->low;
    case 'h': return limits->high;
    default: return NULL;
  }
}

static void prelude_expand(const lw_prelude *prelude, const prelude_match *match, lw_text *out) {
  const char *p = match->helper->source;
  for (;;) {
    const char *dollar = strchr(p, '$');
    lw__text_add_n(out, p, dollar == NULL ? strlen(p) : (size_t)(dollar - p));
    if (dollar == NULL) break;
    const char *text = prelude_expansion(prelude, match, dollar[1]);
    lw__text_add(out, "%s", text != NULL ? text : "?");
    p = dollar + 2;
  }
  lw__text_add(out, "\n");
}

/* ---- closure ----------------------------------------------------------------------------------*/

static bool prelude_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The next identifier lw_* in |rest|; false when there is none. */
static bool prelude_next_name(lw_str *rest, lw_str *out) {
  while (rest->len > 0) {
    size_t n = 0;
    while (n < rest->len && prelude_in_name(rest->ptr[n])) n++;
    lw_str word = lw__str(rest->ptr, n);
    size_t step = n == 0 ? 1 : n;
    *rest = lw__str(rest->ptr + step, rest->len - step);
    if (n <= 3 || memcmp(word.ptr, "lw_", 3) != 0) continue;
    *out = word;
    return true;
  }
  return false;
}

static lw_status prelude_scan(prelude_state *state, lw_str text, unsigned depth);

static lw_status prelude_use(prelude_state *state, lw_str name, unsigned depth) {
  bool added;
  uint32_t ignored;
  LW_TRY(lw__map_put(&state->seen, name, 0, &added, &ignored));
  prelude_match match;
  if (!added || depth > PRELUDE_MAX_DEPTH || !prelude_find(state->prelude, name, &match))
    return LW_OK;
  lw_text source = {0};
  prelude_expand(state->prelude, &match, &source);
  const char *kept = NULL;
  lw_status status = source.status;
  if (status == LW_OK) status = lw__arena_strndup(&state->arena, source.data, source.len, &kept);
  if (status == LW_OK) status = prelude_scan(state, lw__str(kept, source.len), depth + 1);
  if (status == LW_OK) lw__text_add_n(state->out, kept, source.len);
  lw__text_deinit(&source);
  return status;
}

static lw_status prelude_scan(prelude_state *state, lw_str text, unsigned depth) {
  lw_str name;
  while (prelude_next_name(&text, &name)) LW_TRY(prelude_use(state, name, depth));
  return LW_OK;
}

lw_status lw__prelude_print(const lw_prelude *prelude, const lw_text *body, lw_text *out) {
  prelude_state state = {.prelude = prelude, .out = out};
  lw_status status = prelude_scan(&state, lw__str(lw__text_str(body), body->len), 0);
  lw__map_deinit(&state.seen);
  lw__arena_deinit(&state.arena);
  return status == LW_OK ? out->status : status;
}
