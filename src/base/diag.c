/* diag.c: lists of messages. */
#include "base/internal.h"

void lw__diag_deinit(lw_diag *diag) {
  lw__arena_deinit(&diag->arena);
  lw_vec_free(&diag->messages);
}

static void LW_PRINTF(5, 0) diag_add(lw_diag *diag, lw_severity severity, lw_status status,
                                     const char *where, const char *fmt, va_list args) {
  if (diag == NULL) return;
  lw_message message = {.severity = severity, .status = status};
  lw_str place = lw__str_of(where);
  if (lw__arena_strndup(&diag->arena, place.ptr, place.len, &message.where) != LW_OK) {
    message.where = "";
  }
  if (lw__arena_vprintf(&diag->arena, &message.text, fmt, args) != LW_OK) {
    message.text = "(no memory for the text of this message)";
  }
  /* Without room for the entry itself the caller still has the status. */
  if (lw_vec_reserve(&diag->messages, 1) == LW_OK) {
    diag->messages.data[diag->messages.count++] = message;
  }
}

lw_status lw__fail(lw_diag *diag, lw_status status, const char *where, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  diag_add(diag, LW_SEVERITY_ERROR, status, where, fmt, args);
  va_end(args);
  return status;
}

void lw__note(lw_diag *diag, lw_severity severity, const char *where, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  diag_add(diag, severity, LW_OK, where, fmt, args);
  va_end(args);
}

void lw__diag_move(lw_diag *from, bool errors, lw_diag *to) {
  for (uint32_t i = 0; i < from->messages.count; i++) {
    const lw_message *m = &from->messages.data[i];
    if (m->severity != LW_SEVERITY_ERROR) {
      lw__note(to, m->severity, m->where, "%s", m->text);
    } else if (errors) {
      (void)lw__fail(to, m->status, m->where, "%s", m->text);
    }
  }
  lw__diag_deinit(from);
}

const char *lw__diag_first_error(const lw_diag *diag) {
  if (diag == NULL) return "";
  for (uint32_t i = 0; i < diag->messages.count; i++) {
    const lw_message *message = &diag->messages.data[i];
    if (message->severity == LW_SEVERITY_ERROR) return message->text;
  }
  return "";
}
