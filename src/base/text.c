/* text.c: string views and growing text. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"

lw_str lw__str_of(const char *cstr) {
  return cstr == NULL ? lw__str("", 0) : lw__str(cstr, strlen(cstr));
}

bool lw__str_eq(lw_str a, lw_str b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool lw__str_is(lw_str a, const char *cstr) { return lw__str_eq(a, lw__str_of(cstr)); }

void lw__text_deinit(lw_text *text) {
  lw__mem_free(text->data);
  *text = (lw_text){0};
}

void lw__text_clear(lw_text *text) {
  text->len = 0;
  text->status = LW_OK;
  if (text->data != NULL) text->data[0] = '\0';
}

/* Room for |more| bytes and the NUL. */
static bool text_grow(lw_text *text, size_t more) {
  if (text->status != LW_OK) return false;
  if (text->capacity > text->len && more < text->capacity - text->len) return true;
  size_t need;
  if (__builtin_add_overflow(text->len, more, &need) || need > SIZE_MAX / 2) {
    text->status = LW_STATUS_OUT_OF_MEMORY;
    return false;
  }
  size_t capacity = text->capacity * 2 > need + 1 ? text->capacity * 2 : need + 1;
  if (capacity < 64) capacity = 64;
  void *memory = text->data;
  text->status = lw__mem_resize(&memory, capacity);
  if (text->status != LW_OK) return false;
  text->data = memory;
  text->capacity = capacity;
  return true;
}

void lw__text_add_n(lw_text *text, const char *s, size_t n) {
  if (!text_grow(text, n)) return;
  if (n != 0) memcpy(text->data + text->len, s, n);
  text->len += n;
  text->data[text->len] = '\0';
}

void lw__text_vadd(lw_text *text, const char *fmt, va_list args) {
  if (text->status != LW_OK) return;
  va_list again;
  va_copy(again, args);
  size_t room = text->capacity - text->len;
  int length = vsnprintf(room == 0 ? NULL : text->data + text->len, room, fmt, args);
  if (length < 0) {
    text->status = LW_STATUS_INTERNAL;
  } else if ((size_t)length < room) {
    text->len += (size_t)length;
  } else if (text_grow(text, (size_t)length)) {
    (void)vsnprintf(text->data + text->len, (size_t)length + 1, fmt, again);
    text->len += (size_t)length;
  }
  /* A failed or cut attempt may have written behind the end. */
  if (text->data != NULL) text->data[text->len] = '\0';
  va_end(again);
}

void lw__text_add(lw_text *text, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  lw__text_vadd(text, fmt, args);
  va_end(args);
}

const char *lw__text_str(const lw_text *text) { return text->data == NULL ? "" : text->data; }
