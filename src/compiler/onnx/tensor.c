/* tensor.c: raw bytes, typed fields and external files to constants. The shape says how many bytes
 * there must be; nothing is allocated before as many are known to be there. */
#include "compiler/onnx/tensor.h"

#include <math.h>
#include <string.h>

#include "compiler/onnx/wire.h"

/* How ONNX stores a type, and where its typed elements stand. */
typedef struct lw_tensor_type {
  const char *name;
  lw_dtype dtype;
  uint32_t field;    /* number of the typed field: float_data 4 ... */
  lw_wire_type wire; /* how one element is encoded there */
  uint32_t bits;     /* of a code in the file, for types that |dtype| only carries; else 0 */
} lw_tensor_type;

static const lw_tensor_type tensor_types[] = {
    [LW_PROTO_FLOAT] = {"FLOAT", LW_DTYPE_F32, 4, LW_WIRE_FIXED32, 0},
    [LW_PROTO_UINT8] = {"UINT8", LW_DTYPE_U8, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_INT8] = {"INT8", LW_DTYPE_I8, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_UINT16] = {"UINT16", LW_DTYPE_U16, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_INT16] = {"INT16", LW_DTYPE_I16, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_INT32] = {"INT32", LW_DTYPE_I32, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_INT64] = {"INT64", LW_DTYPE_I64, 7, LW_WIRE_VARINT, 0},
    [LW_PROTO_STRING] = {"STRING", LW_DTYPE_NONE, 0, 0, 0},
    [LW_PROTO_BOOL] = {"BOOL", LW_DTYPE_BOOL, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_FLOAT16] = {"FLOAT16", LW_DTYPE_F16, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_DOUBLE] = {"DOUBLE", LW_DTYPE_F64, 10, LW_WIRE_FIXED64, 0},
    [LW_PROTO_UINT32] = {"UINT32", LW_DTYPE_U32, 11, LW_WIRE_VARINT, 0},
    [LW_PROTO_UINT64] = {"UINT64", LW_DTYPE_U64, 11, LW_WIRE_VARINT, 0},
    [LW_PROTO_COMPLEX64] = {"COMPLEX64", LW_DTYPE_NONE, 0, 0, 0},
    [LW_PROTO_COMPLEX128] = {"COMPLEX128", LW_DTYPE_NONE, 0, 0, 0},
    [LW_PROTO_BFLOAT16] = {"BFLOAT16", LW_DTYPE_BF16, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_FLOAT8E4M3FN] = {"FLOAT8E4M3FN", LW_DTYPE_F8E4M3, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_FLOAT8E4M3FNUZ] = {"FLOAT8E4M3FNUZ", LW_DTYPE_F16, 5, LW_WIRE_VARINT, 8},
    [LW_PROTO_FLOAT8E5M2] = {"FLOAT8E5M2", LW_DTYPE_F8E5M2, 5, LW_WIRE_VARINT, 0},
    [LW_PROTO_FLOAT8E5M2FNUZ] = {"FLOAT8E5M2FNUZ", LW_DTYPE_F16, 5, LW_WIRE_VARINT, 8},
    [LW_PROTO_UINT4] = {"UINT4", LW_DTYPE_U8, 5, LW_WIRE_VARINT, 4},
    [LW_PROTO_INT4] = {"INT4", LW_DTYPE_I8, 5, LW_WIRE_VARINT, 4},
    [LW_PROTO_FLOAT4E2M1] = {"FLOAT4E2M1", LW_DTYPE_F16, 5, LW_WIRE_VARINT, 4},
    [LW_PROTO_FLOAT8E8M0] = {"FLOAT8E8M0", LW_DTYPE_F32, 5, LW_WIRE_VARINT, 8},
    [LW_PROTO_UINT2] = {"UINT2", LW_DTYPE_U8, 5, LW_WIRE_VARINT, 2},
    [LW_PROTO_INT2] = {"INT2", LW_DTYPE_I8, 5, LW_WIRE_VARINT, 2},
};

static const lw_tensor_type *tensor_type(int32_t proto_type) {
  if (proto_type <= 0 || (size_t)proto_type >= LW_ARRAY_COUNT(tensor_types)) return NULL;
  return &tensor_types[proto_type];
}

lw_dtype lw__tensor_dtype(int32_t proto_type) {
  const lw_tensor_type *type = tensor_type(proto_type);
  return type == NULL ? LW_DTYPE_NONE : type->dtype;
}

bool lw__tensor_is_carried(int32_t proto_type) {
  const lw_tensor_type *type = tensor_type(proto_type);
  return type != NULL && type->bits != 0;
}

const char *lw__tensor_type_name(int32_t proto_type) {
  const lw_tensor_type *type = tensor_type(proto_type);
  return type == NULL ? NULL : type->name;
}

void lw__tensor_files_deinit(lw_tensor_files *files) { lw__map_deinit(&files->by_location); }

typedef struct lw_tensor_job {
  lw_tensor_files *files;
  const lw_proto_tensor *proto;
  const char *where;
  const lw_tensor_type *type;
  size_t count; /* elements; while codes are read, bytes with codes */
  lw_tensor *out;
} lw_tensor_job;

#define tensor_invalid(job, ...) \
  lw__fail((job)->files->graph->diag, LW_STATUS_MODEL_INVALID, (job)->where, __VA_ARGS__)

/* Element and byte counts from the dims, with every product checked. */
static lw_status tensor_measure(lw_tensor_job *job) {
  const lw_proto_tensor *proto = job->proto;
  size_t count = 1;
  bool empty = false;
  for (uint32_t d = 0; d < proto->rank; d++) {
    if (proto->dims[d] < 0) {
      return tensor_invalid(job, "tensor dimension %u is %lld", d, (long long)proto->dims[d]);
    }
    empty |= proto->dims[d] == 0;
    job->out->shape.dim[d] = proto->dims[d];
  }
  for (uint32_t d = 0; d < proto->rank && !empty; d++) {
    if (!lw__mul_size(count, (size_t)proto->dims[d], &count)) {
      return tensor_invalid(job, "the tensor has more elements than can be counted");
    }
  }
  job->count = empty ? 0 : count;
  job->out->dtype = job->type->dtype;
  job->out->shape.rank = proto->rank;
  if (!lw__mul_size(job->count, lw_dtype_size_bytes(job->type->dtype), &job->out->bytes)) {
    return tensor_invalid(job, "the tensor has more bytes than can be counted");
  }
  return LW_OK;
}

/* lawson's bools are 0 or 1; a file may hold any byte. */
static lw_status tensor_clean_bools(lw_tensor_job *job) {
  const uint8_t *in = job->out->data;
  bool clean = true;
  for (size_t i = 0; i < job->count && clean; i++) clean = in[i] <= 1;
  if (clean) return LW_OK;
  uint8_t *copy;
  LW_TRY(lw__arena_alloc(&job->files->graph->arena, job->count, 1, &copy));
  for (size_t i = 0; i < job->count; i++) copy[i] = in[i] != 0;
  job->out->data = copy;
  return LW_OK;
}

static lw_status tensor_use_bytes(lw_tensor_job *job, lw_str bytes, const char *what) {
  if (bytes.len != job->out->bytes) {
    return tensor_invalid(job, "the shape says %zu bytes, but %s holds %zu", job->out->bytes, what,
                          bytes.len);
  }
  job->out->data = bytes.len == 0 ? "" : bytes.ptr;
  return job->type->dtype == LW_DTYPE_BOOL ? tensor_clean_bools(job) : LW_OK;
}

/* ---- typed fields ---------------------------------------------------------------------------*/

static size_t tensor_stored_bytes(const lw_tensor_type *type) {
  return type->bits != 0 ? 1 : lw_dtype_size_bytes(type->dtype);
}

static void tensor_store(const lw_tensor_type *type, uint8_t *data, size_t index, uint64_t bits) {
  size_t size = tensor_stored_bytes(type);
  if (type->dtype == LW_DTYPE_BOOL) bits = bits != 0;
  memcpy(data + index * size, &bits, size); /* the low bytes: little endian */
}

/* Calls for every occurrence of the typed field; decodes into |data| when that is not NULL, else
 * counts. */
static lw_status tensor_scan(const lw_tensor_job *job, uint8_t *data, size_t *out_count,
                             lw_str *out_only) {
  size_t count = 0, occurrences = 0;
  for (uint32_t p = 0; p < job->proto->parts.count; p++) {
    lw_wire wire = lw__wire_of(job->proto->parts.data[p]);
    for (lw_wire_field f; lw__wire_next(&wire, &f);) {
      lw_wire_scalars scalars;
      if (f.number != job->type->field || !lw__wire_scalars_begin(&f, job->type->wire, &scalars)) {
        continue;
      }
      occurrences++;
      *out_only = occurrences == 1 ? f.bytes : (lw_str){0};
      if (data == NULL) {
        count += lw__wire_scalars_count(&scalars);
        continue;
      }
      for (uint64_t bits; count < job->count && lw__wire_scalars_next(&scalars, &bits); count++) {
        tensor_store(job->type, data, count, bits);
      }
      if (scalars.packed.error != NULL) return tensor_invalid(job, "%s", scalars.packed.error);
    }
  }
  *out_count = count;
  return LW_OK;
}

static lw_status tensor_from_typed(lw_tensor_job *job) {
  size_t count;
  lw_str only = {0};
  LW_TRY(tensor_scan(job, NULL, &count, &only));
  if (count != job->count) {
    return tensor_invalid(job, "the shape says %zu elements, but the tensor holds %zu", job->count,
                          count);
  }
  bool fixed = job->type->wire != LW_WIRE_VARINT;
  if (fixed && only.ptr != NULL) return tensor_use_bytes(job, only, "the data field");
  uint8_t *data;
  LW_TRY(lw__arena_alloc(&job->files->graph->arena, job->out->bytes, 1, &data));
  LW_TRY(tensor_scan(job, data, &count, &only));
  if (count != job->count) return tensor_invalid(job, "the tensor's data are cut short");
  job->out->data = data;
  return LW_OK;
}

/* ---- external data --------------------------------------------------------------------------*/

static bool tensor_parse_size(lw_str text, uint64_t *out) {
  uint64_t value = 0;
  for (size_t i = 0; i < text.len; i++) {
    if (text.ptr[i] < '0' || text.ptr[i] > '9') return false;
    if (__builtin_mul_overflow(value, 10, &value)) return false;
    if (__builtin_add_overflow(value, (uint64_t)(text.ptr[i] - '0'), &value)) return false;
  }
  *out = value;
  return text.len != 0;
}

static lw_status tensor_map_file(lw_tensor_job *job, lw_str location, lw_file_map *out) {
  lw_tensor_files *files = job->files;
  if (files->dir == NULL) {
    return tensor_invalid(job,
                          "the data are in another file, and this model came without a folder");
  }
  uint32_t known = lw__map_get(&files->by_location, location);
  if (known != LW_NONE) {
    *out = files->graph->files.data[known];
    return LW_OK;
  }
  const char *name;
  LW_TRY(lw__arena_strndup(&files->graph->arena, location.ptr, location.len, &name));
  LW_TRY(lw_vec_reserve(&files->graph->files, 1));
  LW_TRY(lw_vec_reserve(&files->graph->file_names, 1));
  lw_file_map map;
  lw_status status = lw__file_map_beneath(files->dir, location, files->graph->diag, &map);
  if (status != LW_OK) {
    return lw__fail(files->graph->diag, status, job->where, "its data should be in the file '%.*s'",
                    (int)lw__min_i64((int64_t)location.len, 200), location.ptr);
  }
  uint32_t index = files->graph->files.count++;
  files->graph->files.data[index] = map;
  files->graph->file_names.data[files->graph->file_names.count++] = name;
  *out = map;
  return lw__map_put(&files->by_location, location, index, NULL, NULL);
}

static lw_status tensor_from_external(lw_tensor_job *job) {
  lw_str location = {0};
  uint64_t offset = 0, length = 0;
  bool has_length = false;
  for (uint32_t i = 0; i < job->proto->external.count; i++) {
    const lw_proto_entry *entry = &job->proto->external.data[i];
    bool ok = true;
    if (lw__str_is(entry->key, "location")) {
      location = entry->value;
    } else if (lw__str_is(entry->key, "offset")) {
      ok = tensor_parse_size(entry->value, &offset);
    } else if (lw__str_is(entry->key, "length")) {
      ok = has_length = tensor_parse_size(entry->value, &length);
    }
    if (!ok)
      return tensor_invalid(job, "the offset or length of its external data is not a number");
  }
  if (location.len == 0) return tensor_invalid(job, "its external data name no file");
  lw_file_map map = {0};
  LW_TRY(tensor_map_file(job, location, &map));
  if (offset > map.bytes)
    return tensor_invalid(job, "its external data begin behind the file's end");
  uint64_t left = map.bytes - offset;
  /* Without a length the shape decides. */
  if (!has_length) length = job->out->bytes;
  if (length > left || job->out->bytes > left) {
    return tensor_invalid(
        job, "its external data need %llu bytes at offset %llu of a file of %zu",
        (unsigned long long)lw__max_i64((int64_t)length, (int64_t)job->out->bytes),
        (unsigned long long)offset, map.bytes);
  }
  return tensor_use_bytes(job,
                          lw__str((const char *)map.data + (map.bytes == 0 ? 0 : offset), length),
                          "the external file's part");
}

/* ---- types that another one carries ---------------------------------------------------------*/

static double tensor_minifloat(uint32_t code, int mantissa, int bias) {
  int exponent = (int)(code >> mantissa), fraction = (int)(code & ((1u << mantissa) - 1));
  if (exponent == 0) return ldexp(fraction, 1 - bias - mantissa);
  return ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

/* The number that |code| stands for. Sources: the ONNX pages on float8, float4 and int4. */
static double tensor_decode(int32_t type, uint32_t code) {
  double sign = code & 0x80 ? -1 : 1;
  switch (type) {
    case LW_PROTO_FLOAT8E4M3FNUZ:
      return code == 0x80 ? NAN : sign * tensor_minifloat(code & 0x7f, 3, 8);
    case LW_PROTO_FLOAT8E5M2FNUZ:
      return code == 0x80 ? NAN : sign * tensor_minifloat(code & 0x7f, 2, 16);
    case LW_PROTO_FLOAT4E2M1: return (code & 8 ? -1 : 1) * tensor_minifloat(code & 7, 1, 1);
    case LW_PROTO_FLOAT8E8M0: return code == 0xff ? NAN : ldexp(1, (int)code - 127);
    case LW_PROTO_INT4: return (double)(code ^ 8) - 8;
    case LW_PROTO_INT2: return (double)(code ^ 2) - 2;
    default: return code;
  }
}

/* |job->out| holds packed codes, the first one in the lowest bits; each becomes an element. */
static lw_status tensor_unpack(lw_tensor_job *job, size_t count) {
  uint32_t bits = job->type->bits, per_byte = 8 / bits;
  const uint8_t *codes = job->out->data;
  size_t size = lw_dtype_size_bytes(job->type->dtype);
  uint8_t *data;
  LW_TRY(lw__arena_alloc(&job->files->graph->arena, count, size, &data));
  for (size_t i = 0; i < count; i++) {
    uint32_t code = (uint32_t)codes[i / per_byte] >> i % per_byte * bits & ((1u << bits) - 1);
    double value = tensor_decode(job->proto->data_type, code);
    lw__elem_set_f64(job->type->dtype, data, (int64_t)i, value);
  }
  job->out->data = data;
  job->out->bytes = count * size;
  return LW_OK;
}

static lw_status tensor_read(lw_tensor_job *job) {
  if (job->proto->is_external) return tensor_from_external(job);
  if (job->proto->has_raw) return tensor_use_bytes(job, job->proto->raw, "the file");
  return tensor_from_typed(job);
}

/* ---- entry ----------------------------------------------------------------------------------*/

lw_status lw__tensor_load(lw_tensor_files *files, const lw_proto_tensor *proto, const char *where,
                          const char **out_reason, lw_tensor *out) {
  *out = (lw_tensor){0};
  *out_reason = "";
  lw_tensor_job job = {files, proto, where, tensor_type(proto->data_type), 0, out};
  if (job.type == NULL) {
    return tensor_invalid(&job, "the tensor's data type %d is not one of ONNX", proto->data_type);
  }
  if (job.type->dtype == LW_DTYPE_NONE) {
    const char *reason;
    LW_TRY(lw__arena_printf(&files->graph->arena, &reason, "tensor of type %s", job.type->name));
    *out_reason = reason;
    return LW_STATUS_UNSUPPORTED;
  }
  if (proto->rank > LW_MAX_RANK) {
    *out_reason = "tensor of more than 12 dimensions";
    return LW_STATUS_UNSUPPORTED;
  }
  LW_TRY(tensor_measure(&job));
  if (job.type->bits == 0) return tensor_read(&job);
  size_t count = job.count;
  job.out->bytes = job.count = count / (8 / job.type->bits) + (count % (8 / job.type->bits) != 0);
  LW_TRY(tensor_read(&job));
  return tensor_unpack(&job, count);
}
