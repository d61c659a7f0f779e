/* cupti_standin.c: a look-alike of CUPTI's activity interface: every flush delivers the records
 * that the test wrote down, with records of another kind and another size between them. */
#include "standin/cupti_standin.h"

#include <stddef.h>
#include <string.h>

#include "runtime/cuda/cupti.h"

#define DECLARE(name, symbol, parameters) \
  __attribute__((visibility("default"))) lw_cupti_result symbol parameters;
LW_CUPTI_SYMBOLS(DECLARE)
#undef DECLARE
__attribute__((visibility("default"))) lw_cupti_standin_state *lw_cupti_standin(void);

enum { FAILED = 999, MAX_LIMIT_REACHED = 12, INVALID_KIND = 21, RECORD_BYTES = 208 };

static lw_cupti_standin_state state;
static lw_cupti_request request;
static lw_cupti_complete complete;

lw_cupti_standin_state *lw_cupti_standin(void) { return &state; }

static int fails(void) {
  state.calls++;
  return state.fail_at != 0 && --state.fail_at == 0;
}

int cuptiActivityRegisterCallbacks(lw_cupti_request on_request, lw_cupti_complete on_complete) {
  if (fails()) return FAILED;
  request = on_request;
  complete = on_complete;
  return 0;
}

int cuptiActivityEnable(int kind) {
  if (fails()) return FAILED;
  if (kind != LW_CUPTI_KERNEL || request == NULL) return INVALID_KIND;
  state.enabled++;
  return 0;
}

int cuptiActivityDisable(int kind) {
  if (kind == LW_CUPTI_KERNEL && state.enabled > 0) state.enabled--;
  return fails() ? FAILED : 0;
}

int cuptiActivityFlushAll(uint32_t flag) {
  (void)flag;
  if (fails()) return FAILED;
  state.flushes++;
  if (!state.enabled) return 0;
  uint8_t *buffer = NULL;
  size_t bytes = 0, most = 0, filled = 0;
  request(&buffer, &bytes, &most);
  if (buffer == NULL) return 0;
  state.buffers_out++;
  for (uint32_t i = 0; i < state.count; i++, filled += RECORD_BYTES) {
    struct lw_cupti_record record = {.kind = state.records[i].kind,
                                     .begin_ns = state.records[i].begin_ns,
                                     .end_ns = state.records[i].end_ns};
    memset(buffer + filled, 0xff, RECORD_BYTES);
    memcpy(buffer + filled, &record, sizeof record);
  }
  complete(NULL, 0, buffer, bytes, filled);
  state.buffers_out--;
  return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t filled, lw_cupti_activity **record) {
  uint8_t *next = *record == NULL ? buffer : (uint8_t *)*record + RECORD_BYTES;
  if (next >= buffer + filled) return MAX_LIMIT_REACHED;
  *record = (lw_cupti_activity *)(void *)next;
  return 0;
}

int cuptiGetResultString(int result, const char **text) {
  *text = "CUPTI_ERROR_STANDIN";
  return result == FAILED ? 0 : 1;
}
