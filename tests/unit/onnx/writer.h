/* writer.h: writes protobuf wire bytes and small ONNX models for tests. Functions give text buffers
 * that the caller ends with lw__text_deinit; parts that are added to another message are ended
 * there. */
#ifndef LW_TESTS_ONNX_WRITER_H
#define LW_TESTS_ONNX_WRITER_H

#include <stdarg.h>
#include <string.h>

#include "base/base.h"

static inline void pb_varint(lw_text *out, uint64_t v) {
  do {
    char byte = (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
    lw__text_add_n(out, &byte, 1);
    v >>= 7;
  } while (v != 0);
}
static inline void pb_int(lw_text *out, uint32_t field, int64_t v) {
  pb_varint(out, (uint64_t)field << 3);
  pb_varint(out, (uint64_t)v);
}
static inline void pb_bytes(lw_text *out, uint32_t field, const void *data, size_t n) {
  pb_varint(out, (uint64_t)field << 3 | 2);
  pb_varint(out, n);
  lw__text_add_n(out, data, n);
}
static inline void pb_str(lw_text *out, uint32_t field, const char *s) {
  pb_bytes(out, field, s, strlen(s));
}
static inline void pb_part(lw_text *out, uint32_t field, lw_text part) {
  pb_bytes(out, field, lw__text_str(&part), part.len);
  lw__text_deinit(&part);
}

/* A NodeProto: names separated by spaces, "-" is the empty name. */
static inline void pb_names(lw_text *out, uint32_t field, const char *names) {
  while (*names != '\0') {
    size_t n = strcspn(names, " ");
    if (n == 1 && names[0] == '-')
      pb_bytes(out, field, "", 0);
    else
      pb_bytes(out, field, names, n);
    names += n;
    while (*names == ' ') names++;
  }
}
static inline lw_text pb_node(const char *op, const char *inputs, const char *outputs) {
  lw_text out = {0};
  pb_names(&out, 1, inputs);
  pb_names(&out, 2, outputs);
  pb_str(&out, 4, op);
  return out;
}
static inline void pb_attr_int(lw_text *node, const char *name, int64_t v) {
  lw_text a = {0};
  pb_str(&a, 1, name);
  pb_int(&a, 3, v);
  pb_int(&a, 20, 2);
  pb_part(node, 5, a);
}
static inline void pb_attr_graph(lw_text *node, const char *name, lw_text graph) {
  lw_text a = {0};
  pb_str(&a, 1, name);
  pb_part(&a, 6, graph);
  pb_int(&a, 20, 5);
  pb_part(node, 5, a);
}

/* A ValueInfoProto: dims as "2 batch 3"; a part that begins with a digit is a number. */
static inline lw_text pb_value(const char *name, int64_t elem_type, const char *dims) {
  lw_text shape = {0}, tensor = {0}, type = {0}, out = {0};
  while (*dims != '\0') {
    lw_text dim = {0};
    size_t n = strcspn(dims, " ");
    if (dims[0] >= '0' && dims[0] <= '9')
      pb_int(&dim, 1, strtoll(dims, NULL, 10));
    else
      pb_bytes(&dim, 2, dims, n);
    pb_part(&shape, 1, dim);
    dims += n;
    while (*dims == ' ') dims++;
  }
  pb_int(&tensor, 1, elem_type);
  pb_part(&tensor, 2, shape);
  pb_part(&type, 1, tensor);
  pb_str(&out, 1, name);
  pb_part(&out, 2, type);
  return out;
}

/* A TensorProto with raw data; |rank| dims follow as int. */
static inline lw_text pb_tensor(const char *name, int64_t type, const void *data, size_t bytes,
                                int rank, ...) {
  lw_text out = {0};
  va_list args;
  va_start(args, rank);
  for (int d = 0; d < rank; d++) pb_int(&out, 1, va_arg(args, int));
  va_end(args);
  pb_int(&out, 2, type);
  pb_str(&out, 8, name);
  pb_bytes(&out, 9, data, bytes);
  return out;
}
static inline lw_text pb_ints(const char *name, int n, const int64_t *values) {
  return pb_tensor(name, 7, values, (size_t)n * 8, 1, n);
}

/* A ModelProto around a graph. */
static inline lw_text pb_model(lw_text graph, int64_t opset) {
  lw_text out = {0}, import = {0};
  pb_int(&out, 1, 8);
  pb_part(&out, 7, graph);
  pb_int(&import, 2, opset);
  pb_part(&out, 8, import);
  return out;
}

#endif
