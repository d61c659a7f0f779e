/* base.h: what every file of lawson may rely on: status handling, diagnostics, arenas, vectors,
 * string map, text buffers, hashing, checked arithmetic, bits of floating point.
 * Must not know of graphs, devices or kernels. Includes only libc and lawson/types.h. */
#ifndef LW_BASE_H
#define LW_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lawson/types.h>

/* Returns early when |expr| is not LW_OK. With resources held use
 * `if ((status = f()) != LW_OK) goto done;` and one `return status;`. */
#define LW_TRY(expr)                                   \
  do {                                                 \
    lw_status lw_try_status_ = (expr);                 \
    if (lw_try_status_ != LW_OK) return lw_try_status_; \
  } while (0)

#define LW_ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LW_NONE UINT32_MAX /* "no such id" for every 32-bit id */

static inline int64_t lw__min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t lw__max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
/* a >= 0, b > 0 */
static inline int64_t lw__ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
static inline int64_t lw__round_up(int64_t a, int64_t b) { return lw__ceil_div(a, b) * b; }
/* Division and remainder that round toward minus infinity; b > 0. */
static inline int64_t lw__floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static inline int64_t lw__floor_mod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

/* Checked arithmetic: false on overflow, *out untouched then. */
static inline bool lw__mul_size(size_t a, size_t b, size_t *out) {
  size_t result;
  if (__builtin_mul_overflow(a, b, &result)) return false;
  *out = result;
  return true;
}
static inline bool lw__mul_i64(int64_t a, int64_t b, int64_t *out) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return false;
  *out = result;
  return true;
}
static inline bool lw__add_i64(int64_t a, int64_t b, int64_t *out) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return false;
  *out = result;
  return true;
}

/* ---- host memory --------------------------------------------------------------------------------
 * All host memory of the library passes through these two, so that tests can fail allocations.
 * |lw__mem_resize| is realloc; bytes 0 frees; on failure *ptr is unchanged. Alignment: 16. */
lw_status lw__mem_resize(void **ptr, size_t bytes) LW_MUST_CHECK;
void lw__mem_free(void *ptr);
/* Test hook: the n-th allocation from now fails (n >= 1), that one alone; 0 turns it off. Gives
 * what was left of the last such number: 0 when that allocation has come. */
uint64_t lw__mem_fail_at(uint64_t n);
/* How often memory was asked for since the process began. This atomic counter and that of the hook
 * are the mutable globals of the library, beside what CUPTI's callbacks need. */
uint64_t lw__mem_count(void);

/* ---- arena --------------------------------------------------------------------------------------
 * Bump allocation, freed as a whole. Memory is zeroed. Not thread-safe. A zeroed struct is a valid
 * empty arena. |out_ptr| is a T**; pieces are aligned to 16 bytes, and empty ones are not NULL. */
typedef struct lw_arena_block lw_arena_block;
typedef struct lw_arena {
  lw_arena_block *head;
  size_t used_bytes; /* handed out so far */
} lw_arena;
void lw__arena_deinit(lw_arena *arena);
void lw__arena_reset(lw_arena *arena); /* keeps the largest block */
lw_status lw__arena_alloc(lw_arena *arena, size_t count, size_t size, void *out_ptr) LW_MUST_CHECK;
lw_status lw__arena_dup(lw_arena *arena, const void *data, size_t bytes, void *out_ptr)
    LW_MUST_CHECK;
lw_status lw__arena_strndup(lw_arena *arena, const char *s, size_t n, const char **out)
    LW_MUST_CHECK; /* adds a NUL */
lw_status lw__arena_printf(lw_arena *arena, const char **out, const char *fmt, ...)
    LW_MUST_CHECK LW_PRINTF(3, 4);

/* ---- vector -------------------------------------------------------------------------------------
 * LW_VEC(int) v = {0}; LW_TRY(lw_vec_push(&v, 3)); v.data[0]; v.count; lw_vec_free(&v); */
#define LW_VEC(T)      \
  struct {             \
    T *data;           \
    uint32_t count;    \
    uint32_t capacity; \
  }
/* Room for |more| further elements. */
lw_status lw__vec_grow(void *vec, size_t elem_bytes, uint32_t more) LW_MUST_CHECK;
#define lw_vec_reserve(v, more) lw__vec_grow((v), sizeof *(v)->data, (uint32_t)(more))
#define lw_vec_push(v, ...)                                            \
  (lw__vec_grow((v), sizeof *(v)->data, 1) == LW_OK                    \
       ? ((v)->data[(v)->count++] = (__VA_ARGS__), LW_OK)              \
       : LW_STATUS_OUT_OF_MEMORY)
#define lw_vec_free(v) (lw__mem_free((v)->data), (v)->data = NULL, (v)->count = (v)->capacity = 0)

/* ---- string view, text buffer -----------------------------------------------------------------*/
typedef struct lw_str {
  const char *ptr; /* not NUL-terminated */
  size_t len;
} lw_str;
static inline lw_str lw__str(const char *p, size_t n) { lw_str s = {p, n}; return s; }
lw_str lw__str_of(const char *cstr); /* NULL gives the empty string */
bool lw__str_eq(lw_str a, lw_str b);
bool lw__str_is(lw_str a, const char *cstr);

/* Growing text. Errors are sticky: append freely, look at |status| once. |data| is always
 * NUL-terminated once something was appended. */
typedef struct lw_text {
  char *data;
  size_t len, capacity;
  lw_status status;
} lw_text;
void lw__text_deinit(lw_text *text);
void lw__text_clear(lw_text *text);
void lw__text_add(lw_text *text, const char *fmt, ...) LW_PRINTF(2, 3);
void lw__text_vadd(lw_text *text, const char *fmt, va_list args);
void lw__text_add_n(lw_text *text, const char *s, size_t n);
const char *lw__text_str(const lw_text *text); /* never NULL */

/* ---- string map: (ptr, len) -> uint32 -----------------------------------------------------------
 * Keys are borrowed and must outlive the map. */
typedef struct lw_map {
  struct lw_map_slot *slots;
  uint32_t count, capacity;
} lw_map;
void lw__map_deinit(lw_map *map);
/* Puts key -> value unless the key is there; *out_value then holds the present value (else
 * |value|). Both out-parameters may be NULL. */
lw_status lw__map_put(lw_map *map, lw_str key, uint32_t value, bool *out_added, uint32_t *out_value)
    LW_MUST_CHECK;
uint32_t lw__map_get(const lw_map *map, lw_str key); /* LW_NONE when absent */

/* ---- hashing ------------------------------------------------------------------------------------
 * 128 bits, deterministic over machines and runs; for identities (kernels, plans), not against
 * attackers. Chain pieces by passing one hash as the next seed; lengths are part of the hash. */
typedef struct lw_hash { uint64_t lo, hi; } lw_hash;
lw_hash lw__hash_bytes(const void *data, size_t bytes, lw_hash seed);
/* Another hash of the same kind, for megabytes: four times as fast, since four parts of the data go
 * side by side. */
lw_hash lw__hash_wide(const void *data, size_t bytes, lw_hash seed);
bool lw__hash_eq(lw_hash a, lw_hash b);
void lw__hash_hex(lw_hash hash, char out[33]);

/* ---- diagnostics --------------------------------------------------------------------------------
 * A list of messages. Functions that can fail for the user's reasons take one and say why; the
 * first error is what a program prints. Not thread-safe. |where| and text are copied. */
typedef struct lw_diag {
  lw_arena arena;
  LW_VEC(lw_message) messages;
} lw_diag;
void lw__diag_deinit(lw_diag *diag);
/* Adds an error and returns |status|: `return lw__fail(diag, LW_STATUS_USAGE, where, "...", ...);`.
 * |diag| may be NULL. Never fails itself: without memory the text is dropped. */
lw_status lw__fail(lw_diag *diag, lw_status status, const char *where, const char *fmt, ...)
    LW_PRINTF(4, 5);
void lw__note(lw_diag *diag, lw_severity severity, const char *where, const char *fmt, ...)
    LW_PRINTF(4, 5);
const char *lw__diag_first_error(const lw_diag *diag);
/* Appends the messages of |from| to |to| (may be NULL), errors only where |errors|, and empties
 * |from|. */
void lw__diag_move(lw_diag *from, bool errors, lw_diag *to); /* text or "" */

/* ---- element types ----------------------------------------------------------------------------*/
static inline bool lw__dtype_is_float(lw_dtype t) { return t >= LW_DTYPE_F16; }
static inline bool lw__dtype_is_half(lw_dtype t) {
  return t == LW_DTYPE_F16 || t == LW_DTYPE_BF16;
}
static inline bool lw__dtype_is_signed(lw_dtype t) { return t >= LW_DTYPE_I8 && t <= LW_DTYPE_I64; }
static inline bool lw__dtype_is_unsigned(lw_dtype t) {
  return t >= LW_DTYPE_U8 && t <= LW_DTYPE_U64;
}
static inline bool lw__dtype_is_int(lw_dtype t) { return t >= LW_DTYPE_I8 && t <= LW_DTYPE_U64; }
/* Bits of narrow floats. Conversions from double round to nearest even, directly (not through
 * float); overflow gives infinity (E4M3: NaN). NaN stays NaN, quietly, with what fits of its bits.
 */
double lw__f16_to_f64(uint16_t bits);
uint16_t lw__f64_to_f16(double x);
double lw__bf16_to_f64(uint16_t bits);
uint16_t lw__f64_to_bf16(double x);
double lw__f8e4m3_to_f64(uint8_t bits);
uint8_t lw__f64_to_f8e4m3(double x);
double lw__f8e5m2_to_f64(uint8_t bits);
uint8_t lw__f64_to_f8e5m2(double x);
/* The same chosen by type: element |index| of an array of |dtype|, which need not be aligned, as a
 * double (i64 and u64 lose bits beyond 2^53: use lw__elem_get_i64 for integers), and back (rounded
 * as above; integers truncate and wrap, NaN and infinity give 0; bool: x != 0). */
double lw__elem_get_f64(lw_dtype dtype, const void *data, int64_t index);
int64_t lw__elem_get_i64(lw_dtype dtype, const void *data, int64_t index); /* u64: the same bits */
void lw__elem_set_f64(lw_dtype dtype, void *data, int64_t index, double x);
void lw__elem_set_i64(lw_dtype dtype, void *data, int64_t index, int64_t x);
/* |x| rounded to a float type's values; for other types |x| itself. */
double lw__round_to(lw_dtype dtype, double x);
/* u: 2^-11 for f16, 2^-8 bf16, 2^-24 f32, 2^-53 f64, 2^-4 f8e4m3, 2^-3 f8e5m2; 0 for integers. */
double lw__dtype_unit_roundoff(lw_dtype dtype);
/* Most negative and largest finite value, or the integer's limits, as doubles (i64 and u64: the
 * largest is rounded up to 2^63, 2^64). */
double lw__dtype_lowest(lw_dtype dtype);
double lw__dtype_largest(lw_dtype dtype);

/* ---- random numbers (tests, default inputs): xoshiro256**, seeded by splitmix64 ---------------*/
typedef struct lw_rng { uint64_t s[4]; } lw_rng;
void lw__rng_seed(lw_rng *rng, uint64_t seed);
uint64_t lw__rng_u64(lw_rng *rng);
int64_t lw__rng_range(lw_rng *rng, int64_t lo, int64_t hi); /* lo <= x < hi */
double lw__rng_uniform(lw_rng *rng);                        /* 0 <= x < 1 */
double lw__rng_normal(lw_rng *rng);

/* ---- files ------------------------------------------------------------------------------------*/
typedef struct lw_file_map { const uint8_t *data; size_t bytes; } lw_file_map;
/* Read-only mapping of a regular file; an empty one gives NULL, 0. */
lw_status lw__file_map(const char *path, lw_diag *diag, lw_file_map *out) LW_MUST_CHECK;
void lw__file_unmap(lw_file_map *map);
/* Opens |relative| below folder |dir| ("" is the current one): no absolute path, no "..", no
 * symbolic link on the way, no file with more than one hard link, regular files only. What breaks
 * this gives MODEL_INVALID. */
lw_status lw__file_map_beneath(const char *dir, lw_str relative, lw_diag *diag, lw_file_map *out)
    LW_MUST_CHECK;
/* Writes a file beside |path| and renames it, so that |path| is never seen half-written; devices,
 * pipes and symbolic links are written through. */
lw_status lw__file_write(const char *path, const void *data, size_t bytes, lw_diag *diag)
    LW_MUST_CHECK;
int64_t lw__now_ns(void); /* monotonic clock */

#endif
