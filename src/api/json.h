/* json.h: writes JSON text piece by piece into a lw_text: reports of the library, nothing else.
 * Errors are those of the lw_text (sticky), so write freely and look at its status once.
 *
 *   lw_json j; lw__json_init(&j, &text, true);
 *   lw__json_object_begin(&j);
 *   lw__json_key(&j, "kernels"); lw__json_uint(&j, 3);   or  lw__json_key_uint(&j, "kernels", 3);
 *   lw__json_key_array_begin(&j, "groups"); ... lw__json_array_end(&j);
 *   lw__json_object_end(&j); */
#ifndef LW_API_JSON_H
#define LW_API_JSON_H

#include "base/base.h"

typedef struct lw_json {
  lw_text *out;
  uint32_t depth;
  bool pretty;     /* one member a line, two spaces per level; else all on one line */
  bool has_member; /* the object or array that is open has one already: a comma is due */
  bool after_key;
} lw_json;

void lw__json_init(lw_json *json, lw_text *out, bool pretty);
void lw__json_object_begin(lw_json *json);
void lw__json_object_end(lw_json *json);
void lw__json_array_begin(lw_json *json);
void lw__json_array_end(lw_json *json);
void lw__json_key(lw_json *json, const char *key);

/* Any bytes may come in: what is not UTF-8 becomes U+FFFD, control characters are escaped. NULL
 * writes null. */
void lw__json_str(lw_json *json, const char *value);
void lw__json_str_n(lw_json *json, const char *value, size_t length);
void lw__json_strf(lw_json *json, const char *fmt, ...) LW_PRINTF(2, 3);
void lw__json_int(lw_json *json, int64_t value);
void lw__json_uint(lw_json *json, uint64_t value);
/* The shortest of 6, 15 or 17 digits that reads back equal; NaN and infinity, which JSON lacks,
 * write null. */
void lw__json_num(lw_json *json, double value);
void lw__json_bool(lw_json *json, bool value);
void lw__json_null(lw_json *json);

void lw__json_key_object_begin(lw_json *json, const char *key);
void lw__json_key_array_begin(lw_json *json, const char *key);
void lw__json_key_str(lw_json *json, const char *key, const char *value);
void lw__json_key_int(lw_json *json, const char *key, int64_t value);
void lw__json_key_uint(lw_json *json, const char *key, uint64_t value);
void lw__json_key_num(lw_json *json, const char *key, double value);
void lw__json_key_bool(lw_json *json, const char *key, bool value);

#endif
