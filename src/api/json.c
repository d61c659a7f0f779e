/* json.c: the JSON writer: commas, indentation, escapes, numbers. */
#include "api/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lw__json_init(lw_json *json, lw_text *out, bool pretty) {
  *json = (lw_json){.out = out, .pretty = pretty};
}

static void json_newline(lw_json *json) {
  if (!json->pretty) return;
  lw__text_add_n(json->out, "\n", 1);
  for (uint32_t i = 0; i < json->depth; i++) lw__text_add_n(json->out, "  ", 2);
}

/* What must stand before the next member or element. */
static void json_separate(lw_json *json) {
  if (json->after_key) {
    json->after_key = false;
    return;
  }
  if (json->has_member) lw__text_add_n(json->out, ",", 1);
  if (json->depth > 0) json_newline(json);
  json->has_member = true;
}

static void json_open(lw_json *json, const char *bracket) {
  json_separate(json);
  lw__text_add_n(json->out, bracket, 1);
  json->depth++;
  json->has_member = false;
}

static void json_close(lw_json *json, const char *bracket) {
  if (json->depth > 0) json->depth--;
  if (json->has_member) json_newline(json);
  lw__text_add_n(json->out, bracket, 1);
  json->has_member = true;
}

void lw__json_object_begin(lw_json *json) { json_open(json, "{"); }
void lw__json_object_end(lw_json *json) { json_close(json, "}"); }
void lw__json_array_begin(lw_json *json) { json_open(json, "["); }
void lw__json_array_end(lw_json *json) { json_close(json, "]"); }

/* Length of the UTF-8 sequence at |s| (1 to 4), 0 when the bytes are none: continuation bytes in
 * the wrong place, overlong forms, surrogates, values beyond U+10FFFF (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *s, size_t left) {
  if (s[0] < 0x80) return 1;
  size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4 || left < length) return 0;
  unsigned char lo = 0x80, hi = 0xbf;
  if (s[0] == 0xe0) lo = 0xa0;
  if (s[0] == 0xed) hi = 0x9f;
  if (s[0] == 0xf0) lo = 0x90;
  if (s[0] == 0xf4) hi = 0x8f;
  if (s[1] < lo || s[1] > hi) return 0;
  for (size_t i = 2; i < length; i++) {
    if (s[i] < 0x80 || s[i] > 0xbf) return 0;
  }
  return length;
}

static void json_escape(lw_text *out, unsigned char c) {
  static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: character, its letter */
  for (const char *p = letters; *p != '\0'; p += 2) {
    if ((unsigned char)*p == c) {
      lw__text_add(out, "\\%c", p[1]);
      return;
    }
  }
  lw__text_add(out, "\\u%04x", c);
}

void lw__json_str_n(lw_json *json, const char *value, size_t length) {
  json_separate(json);
  lw_text *out = json->out;
  lw__text_add_n(out, "\"", 1);
  const unsigned char *s = (const unsigned char *)value;
  size_t plain = 0; /* start of the run of bytes that can be copied as they are */
  for (size_t i = 0; i < length;) {
    size_t n = utf8_length(s + i, length - i);
    bool special = n == 0 || s[i] < 0x20 || s[i] == '"' || s[i] == '\\' || s[i] == 0x7f;
    if (!special) {
      i += n;
      continue;
    }
    lw__text_add_n(out, value + plain, i - plain);
    if (n == 0) {
      lw__text_add_n(out, "\xef\xbf\xbd", 3);
    } else {
      json_escape(out, s[i]);
    }
    plain = ++i;
  }
  if (length > plain) lw__text_add_n(out, value + plain, length - plain);
  lw__text_add_n(out, "\"", 1);
}

void lw__json_str(lw_json *json, const char *value) {
  if (value == NULL) {
    lw__json_null(json);
  } else {
    lw__json_str_n(json, value, strlen(value));
  }
}

void lw__json_strf(lw_json *json, const char *fmt, ...) {
  lw_text text = {0};
  va_list args;
  va_start(args, fmt);
  lw__text_vadd(&text, fmt, args);
  va_end(args);
  if (text.status != LW_OK && json->out->status == LW_OK) json->out->status = text.status;
  lw__json_str_n(json, lw__text_str(&text), text.len);
  lw__text_deinit(&text);
}

static void json_raw(lw_json *json, const char *text) {
  json_separate(json);
  lw__text_add_n(json->out, text, strlen(text));
}

void lw__json_int(lw_json *json, int64_t value) {
  json_separate(json);
  lw__text_add(json->out, "%" PRId64, value);
}

void lw__json_uint(lw_json *json, uint64_t value) {
  json_separate(json);
  lw__text_add(json->out, "%" PRIu64, value);
}

void lw__json_num(lw_json *json, double value) {
  static const int digits[] = {6, 15, 17};
  if (!isfinite(value)) {
    lw__json_null(json);
    return;
  }
  char text[40] = "0";
  for (size_t i = 0; i < LW_ARRAY_COUNT(digits); i++) {
    snprintf(text, sizeof text, "%.*g", digits[i], value);
    if (strtod(text, NULL) == value) break;
  }
  char *comma = strchr(text, ','); /* the decimal point of the caller's locale */
  if (comma != NULL) *comma = '.';
  json_raw(json, text);
}

void lw__json_bool(lw_json *json, bool value) { json_raw(json, value ? "true" : "false"); }
void lw__json_null(lw_json *json) { json_raw(json, "null"); }

void lw__json_key(lw_json *json, const char *key) {
  lw__json_str(json, key);
  lw__text_add_n(json->out, ": ", json->pretty ? 2 : 1);
  json->after_key = true;
}

void lw__json_key_object_begin(lw_json *json, const char *key) {
  lw__json_key(json, key);
  lw__json_object_begin(json);
}

void lw__json_key_array_begin(lw_json *json, const char *key) {
  lw__json_key(json, key);
  lw__json_array_begin(json);
}

void lw__json_key_str(lw_json *json, const char *key, const char *value) {
  lw__json_key(json, key);
  lw__json_str(json, value);
}

void lw__json_key_int(lw_json *json, const char *key, int64_t value) {
  lw__json_key(json, key);
  lw__json_int(json, value);
}

void lw__json_key_uint(lw_json *json, const char *key, uint64_t value) {
  lw__json_key(json, key);
  lw__json_uint(json, value);
}

void lw__json_key_num(lw_json *json, const char *key, double value) {
  lw__json_key(json, key);
  lw__json_num(json, value);
}

void lw__json_key_bool(lw_json *json, const char *key, bool value) {
  lw__json_key(json, key);
  lw__json_bool(json, value);
}
