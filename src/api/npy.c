/* npy.c: the .npy format (numpy.lib.format): magic, version, a Python dictionary in text, the
 * elements. */
#include "api/npy.h"

#include <inttypes.h>
#include <string.h>

#define NPY_MAGIC "\x93NUMPY"
#define NPY_MAGIC_BYTES 6
#define NPY_HEADER_ALIGN 64u

typedef struct npy_header {
  lw_dtype dtype;
  bool swapped; /* the other byte order */
  bool fortran;
  int rank;
  int64_t dims[LW_MAX_RANK];
  bool has_descr, has_order, has_shape;
} npy_header;

typedef struct npy_reader {
  const char *at, *end;
  const char *where;
  lw_diag *diag;
} npy_reader;

static lw_status npy_broken(const npy_reader *r, const char *what) {
  return lw__fail(r->diag, LW_STATUS_USAGE, r->where, "not a readable .npy file: %s", what);
}

/* ---- header ----- */

static void npy_skip_space(npy_reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
    r->at++;
}

static bool npy_take(npy_reader *r, char c) {
  npy_skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool npy_take_word(npy_reader *r, const char *word) {
  npy_skip_space(r);
  size_t n = strlen(word);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

static bool npy_take_string(npy_reader *r, lw_str *out) {
  npy_skip_space(r);
  if (r->at == r->end || (*r->at != '\'' && *r->at != '"')) return false;
  char quote = *r->at++;
  const char *begin = r->at;
  while (r->at < r->end && *r->at != quote) r->at++;
  if (r->at == r->end) return false;
  *out = lw__str(begin, (size_t)(r->at - begin));
  r->at++;
  return true;
}

static bool npy_take_number(npy_reader *r, int64_t *out) {
  npy_skip_space(r);
  const char *begin = r->at;
  int64_t value = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    if (!lw__mul_i64(value, 10, &value) || !lw__add_i64(value, *r->at - '0', &value)) return false;
  }
  if (r->at == begin) return false;
  if (r->at < r->end && *r->at == 'L') r->at++; /* written by Python 2 */
  *out = value;
  return true;
}

static lw_dtype npy_dtype(char kind, int64_t size) {
  static const struct {
    char kind;
    int8_t size;
    lw_dtype dtype;
  } types[] = {{'b', 1, LW_DTYPE_BOOL}, {'i', 1, LW_DTYPE_I8},  {'i', 2, LW_DTYPE_I16},
               {'i', 4, LW_DTYPE_I32},  {'i', 8, LW_DTYPE_I64}, {'u', 1, LW_DTYPE_U8},
               {'u', 2, LW_DTYPE_U16},  {'u', 4, LW_DTYPE_U32}, {'u', 8, LW_DTYPE_U64},
               {'f', 2, LW_DTYPE_F16},  {'f', 4, LW_DTYPE_F32}, {'f', 8, LW_DTYPE_F64},
               {'V', 1, LW_DTYPE_U8},   {'V', 2, LW_DTYPE_U16}};
  for (size_t i = 0; i < LW_ARRAY_COUNT(types); i++) {
    if (types[i].kind == kind && types[i].size == size) return types[i].dtype;
  }
  return LW_DTYPE_NONE;
}

static lw_status npy_descr(npy_reader *r, npy_header *h) {
  lw_str text;
  if (!npy_take_string(r, &text)) return npy_broken(r, "structured types are not supported");
  npy_reader inner = {.at = text.ptr, .end = text.ptr + text.len};
  char order = '|';
  if (text.len > 0 && memchr("<>|=", text.ptr[0], 4) != NULL) order = *inner.at++;
  char kind = inner.at < inner.end ? *inner.at++ : '\0';
  int64_t size = 0;
  bool complete = npy_take_number(&inner, &size) && inner.at == inner.end;
  h->dtype = complete ? npy_dtype(kind, size) : kind == '?' ? LW_DTYPE_BOOL : LW_DTYPE_NONE;
  h->swapped = order == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '>' : '<') && size > 1;
  h->has_descr = true;
  if (h->dtype != LW_DTYPE_NONE) return LW_OK;
  return lw__fail(
      r->diag, LW_STATUS_USAGE, r->where,
      "elements of NumPy type '%.*s' are not supported; use bool, (u)int8 to 64 or float16, 32, 64",
      (int)lw__min_i64((int64_t)text.len, 40), text.ptr);
}

static lw_status npy_shape(npy_reader *r, npy_header *h) {
  if (!npy_take(r, '(')) return npy_broken(r, "the shape is no tuple");
  h->rank = 0;
  while (!npy_take(r, ')')) {
    if (h->rank == LW_MAX_RANK) return npy_broken(r, "too many dimensions");
    if (!npy_take_number(r, &h->dims[h->rank]))
      return npy_broken(r, "the shape is no tuple of numbers");
    h->rank++;
    if (!npy_take(r, ',')) {
      if (!npy_take(r, ')')) return npy_broken(r, "the shape is no tuple of numbers");
      break;
    }
  }
  h->has_shape = true;
  return LW_OK;
}

static lw_status npy_member(npy_reader *r, npy_header *h) {
  lw_str key;
  if (!npy_take_string(r, &key) || !npy_take(r, ':'))
    return npy_broken(r, "the header is no dictionary");
  if (lw__str_is(key, "descr")) return npy_descr(r, h);
  if (lw__str_is(key, "shape")) return npy_shape(r, h);
  if (!lw__str_is(key, "fortran_order")) return npy_broken(r, "unknown key in the header");
  h->has_order = true;
  h->fortran = npy_take_word(r, "True");
  return h->fortran || npy_take_word(r, "False")
             ? LW_OK
             : npy_broken(r, "fortran_order is neither True nor False");
}

static lw_status npy_header_parse(npy_reader *r, npy_header *h) {
  if (!npy_take(r, '{')) return npy_broken(r, "the header is no dictionary");
  while (!npy_take(r, '}')) {
    LW_TRY(npy_member(r, h));
    if (npy_take(r, ',')) continue;
    if (!npy_take(r, '}')) return npy_broken(r, "the header is no dictionary");
    break;
  }
  if (!h->has_descr || !h->has_order || !h->has_shape)
    return npy_broken(r, "descr, fortran_order or shape is missing");
  return LW_OK;
}

/* Sets |r| to the header's text and *out_data to what follows it. */
static lw_status npy_frame(npy_reader *r, const uint8_t *file, size_t bytes,
                           const uint8_t **out_data) {
  if (bytes < 10 || memcmp(file, NPY_MAGIC, NPY_MAGIC_BYTES) != 0)
    return npy_broken(r, "it does not begin as one");
  if (file[6] < 1 || file[6] > 3) return npy_broken(r, "unknown version");
  size_t start = file[6] == 1 ? 10 : 12;
  if (bytes < start) return npy_broken(r, "cut short");
  size_t length = (size_t)file[8] | (size_t)file[9] << 8;
  if (start == 12) length |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
  if (length > bytes - start) return npy_broken(r, "cut short in its header");
  r->at = (const char *)file + start;
  r->end = r->at + length;
  *out_data = file + start + length;
  return LW_OK;
}

/* ---- elements ----- */

static lw_status npy_size(const npy_reader *r, const npy_header *h, size_t *out_bytes) {
  size_t bytes = lw_dtype_size_bytes(h->dtype);
  bool empty = false;
  for (int d = 0; d < h->rank; d++) {
    if (h->dims[d] == 0) empty = true;
    if (h->dims[d] != 0 && !lw__mul_size(bytes, (size_t)h->dims[d], &bytes))
      return npy_broken(r, "the shape is too large");
  }
  *out_bytes = empty ? 0 : bytes;
  return LW_OK;
}

static void npy_swap(uint8_t *data, size_t bytes, size_t size) {
  for (size_t i = 0; i + size <= bytes; i += size) {
    for (size_t k = 0; k < size / 2; k++) {
      uint8_t t = data[i + k];
      data[i + k] = data[i + size - 1 - k];
      data[i + size - 1 - k] = t;
    }
  }
}

/* First index fastest in |src|, last index fastest in |dst|. */
static void npy_from_fortran(const npy_header *h, const uint8_t *src, uint8_t *dst, size_t bytes) {
  size_t size = lw_dtype_size_bytes(h->dtype), at = 0;
  size_t stride[LW_MAX_RANK], step = size;
  int64_t index[LW_MAX_RANK] = {0};
  for (int d = 0; d < h->rank; d++) {
    stride[d] = step;
    step *= (size_t)h->dims[d];
  }
  for (size_t i = 0; i < bytes; i += size) {
    memcpy(dst + i, src + at, size);
    for (int d = h->rank - 1; d >= 0; d--) {
      at += stride[d];
      if (++index[d] < h->dims[d]) break;
      at -= stride[d] * (size_t)h->dims[d];
      index[d] = 0;
    }
  }
}

static lw_status npy_elements(const npy_header *h, const uint8_t *src, size_t bytes, lw_npy *out) {
  *out = (lw_npy){.dtype = h->dtype, .rank = h->rank, .bytes = bytes};
  memcpy(out->dims, h->dims, sizeof out->dims);
  if (bytes == 0) return LW_OK;
  LW_TRY(lw__mem_resize(&out->data, bytes));
  if (h->fortran && h->rank > 1) {
    npy_from_fortran(h, src, out->data, bytes);
  } else {
    memcpy(out->data, src, bytes);
  }
  if (h->swapped) npy_swap(out->data, bytes, lw_dtype_size_bytes(h->dtype));
  if (h->dtype == LW_DTYPE_BOOL) {
    uint8_t *flags = out->data;
    for (size_t i = 0; i < bytes; i++) flags[i] = flags[i] != 0;
  }
  return LW_OK;
}

lw_status lw__npy_parse(const void *file, size_t bytes, const char *where, lw_diag *diag,
                        lw_npy *out) {
  *out = (lw_npy){0};
  npy_reader r = {.where = where, .diag = diag};
  npy_header h = {0};
  const uint8_t *data;
  size_t need;
  LW_TRY(npy_frame(&r, file, bytes, &data));
  LW_TRY(npy_header_parse(&r, &h));
  LW_TRY(npy_size(&r, &h, &need));
  size_t have = bytes - (size_t)(data - (const uint8_t *)file);
  if (need > have) {
    return lw__fail(diag, LW_STATUS_USAGE, where,
                    "cut short: its shape needs %zu bytes of elements, there are %zu", need, have);
  }
  return npy_elements(&h, data, need, out);
}

lw_status lw__npy_read(const char *path, lw_diag *diag, lw_npy *out) {
  *out = (lw_npy){0};
  lw_file_map map;
  LW_TRY(lw__file_map(path, diag, &map));
  static const uint8_t nothing[1] = {0};
  lw_status status =
      lw__npy_parse(map.data != NULL ? map.data : nothing, map.bytes, path, diag, out);
  lw__file_unmap(&map);
  return status;
}

void lw__npy_deinit(lw_npy *npy) {
  lw__mem_free(npy->data);
  *npy = (lw_npy){0};
}

/* ---- writing ----- */

static const char *npy_descr_of(lw_dtype dtype) {
  static const char *const names[LW_DTYPE_COUNT] = {
      [LW_DTYPE_BOOL] = "|b1", [LW_DTYPE_I8] = "|i1",     [LW_DTYPE_I16] = "<i2",
      [LW_DTYPE_I32] = "<i4",  [LW_DTYPE_I64] = "<i8",    [LW_DTYPE_U8] = "|u1",
      [LW_DTYPE_U16] = "<u2",  [LW_DTYPE_U32] = "<u4",    [LW_DTYPE_U64] = "<u8",
      [LW_DTYPE_F16] = "<f2",  [LW_DTYPE_BF16] = "<u2",   [LW_DTYPE_F32] = "<f4",
      [LW_DTYPE_F64] = "<f8",  [LW_DTYPE_F8E4M3] = "|u1", [LW_DTYPE_F8E5M2] = "|u1"};
  return names[dtype];
}

static void npy_write_header(lw_text *text, lw_dtype dtype, int rank, const int64_t *dims) {
  lw_text dict = {0};
  lw__text_add(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", npy_descr_of(dtype));
  for (int d = 0; d < rank; d++)
    lw__text_add(&dict, d == 0 ? "%" PRId64 "," : " %" PRId64 ",", dims[d]);
  if (rank > 1 && dict.status == LW_OK)
    dict.data[--dict.len] = '\0'; /* only (n,) keeps its comma */
  lw__text_add(&dict, "), }");
  size_t total = (size_t)lw__round_up((int64_t)(10 + dict.len + 1), NPY_HEADER_ALIGN);
  size_t length = total - 10;
  const char head[4] = {1, 0, (char)(length & 0xff), (char)(length >> 8)};
  lw__text_add_n(text, NPY_MAGIC, NPY_MAGIC_BYTES);
  lw__text_add_n(text, head, sizeof head);
  lw__text_add_n(text, lw__text_str(&dict), dict.len);
  while (text->status == LW_OK && text->len < total - 1) lw__text_add_n(text, " ", 1);
  lw__text_add_n(text, "\n", 1);
  if (dict.status != LW_OK) text->status = dict.status;
  lw__text_deinit(&dict);
}

lw_status lw__npy_write(const char *path, lw_dtype dtype, int rank, const int64_t *dims,
                        const void *data, lw_diag *diag) {
  size_t bytes = lw_dtype_size_bytes(dtype);
  if (bytes == 0 || rank < 0 || rank > LW_MAX_RANK) return LW_STATUS_USAGE;
  for (int d = 0; d < rank; d++) {
    if (dims[d] < 0 || !lw__mul_size(bytes, (size_t)dims[d], &bytes)) return LW_STATUS_USAGE;
  }
  lw_text file = {0};
  npy_write_header(&file, dtype, rank, dims);
  if (bytes > 0) lw__text_add_n(&file, data, bytes);
  lw_status status = file.status;
  if (status == LW_OK) status = lw__file_write(path, file.data, file.len, diag);
  lw__text_deinit(&file);
  return status;
}
