/* file.h: a whole plan as bytes: what the plan cache keeps and `lawson compile` writes.
 *
 * Layout (little endian; docs/plan-file.md): a header of 64 bytes with magic, format, size, version
 * and a checksum; a table of four sections, each with a checksum; the sections, contiguous, padded
 * with zeros to 64 bytes: ABOUT (where the plan is from and where it runs), PLAN (kernels, buffers,
 * steps ...), IMAGES (built kernels), WEIGHTS (constant bytes). Every byte of a file is covered by
 * a checksum, and all checksums are compared before a section is looked into. They are against
 * damage: whoever can write a plan file can make us run code.
 *
 * Constants that lie in one of the model's own files may be left there: such a buffer names a
 * source, an offset, and the source's hash. */
#ifndef LW_PLAN_FILE_H
#define LW_PLAN_FILE_H

#include "plan/plan.h"

/* Changes with every change of what the bytes mean, fields of plan.h included. */
#define LW_PLAN_FORMAT 1u
#define LW_PLAN_MAGIC "\211lawson\n" /* 8 bytes */

/* Where a plan is from and what it needs. Strings are never NULL in what was read. */
typedef struct lw_plan_about {
  const char
      *version; /* lw_version() of the writer; what it says beside the format is for readers */
  const char *build;   /* the writer's build, hexadecimal */
  const char *model;   /* name of the model's file, or "" */
  const char *target;  /* "cpu", "cuda:sm_90a" */
  const char *profile; /* name of the device profile it was compiled with */
  const char *cpu;     /* CPU: the processor's name; "" for GPUs */
  const char *isa;     /* CPU: the instruction sets that the kernels may use, blanks between */
  bool fuse, channels_last; /* options that its user has to know */
  lw_message *messages;     /* what compiling had to say; without their |status| */
  uint32_t message_count;
} lw_plan_about;

/* A file of the model that weights lie in. */
typedef struct lw_plan_source {
  const char *name; /* relative to the model's folder */
  uint64_t bytes;   /* of the whole file */
  lw_hash hash;     /* of all of it: lw__plan_source_hash */
  const uint8_t *data; /* the mapped file; NULL in what was read, until it is attached */
} lw_plan_source;

lw_hash lw__plan_source_hash(const void *data, size_t bytes);

typedef struct lw_plan_place { /* of a WEIGHT buffer in a source */
  uint32_t source;             /* LW_NONE: in the file, or no weight at all */
  uint64_t offset;
} lw_plan_place;

typedef struct lw_plan_file {
  lw_plan plan; /* complete after lw__plan_file_finish */
  lw_plan_about about;
  lw_plan_source *sources;
  uint32_t source_count;
  lw_plan_place *places; /* per buffer */
  lw_arena arena;
} lw_plan_file;

/* Appends the file's bytes to |out| (which is empty). Weights whose bytes lie in a source become
 * references to it; all others, and with no sources all of them, are written. */
lw_status lw__plan_file_write(const lw_plan *plan, const lw_plan_about *about,
                              const lw_plan_source *sources, uint32_t source_count,
                              lw_text *out) LW_MUST_CHECK;

/* True for bytes that begin like a plan file of any format. */
bool lw__plan_file_is(const void *data, size_t bytes);

/* Reads |data|, which must outlive |out| (images and weights stay views of it) and be aligned to 16
 * bytes. Refusals: LW_STATUS_UNSUPPORTED for another format, LW_STATUS_MODEL_INVALID for damage;
 * one message that names |where|. Memory is bounded by the number of bytes. On failure |out| is
 * empty. */
lw_status lw__plan_file_read(const void *data, size_t bytes, const char *where, lw_diag *diag,
                             lw_plan_file *out) LW_MUST_CHECK;
/* Gives source |index| its bytes, which must outlive |file|: LW_STATUS_MODEL_INVALID when size or
 * hash differ. |known| is the data's hash where the caller has it, else NULL. */
lw_status lw__plan_file_attach(lw_plan_file *file, uint32_t index, const void *data, size_t bytes,
                               const lw_hash *known, const char *where,
                               lw_diag *diag) LW_MUST_CHECK;
/* All sources are attached: gives weights their data and checks the plan (lw__plan_verify). */
lw_status lw__plan_file_finish(lw_plan_file *file, const char *where, lw_diag *diag) LW_MUST_CHECK;
void lw__plan_file_deinit(lw_plan_file *file);

/* Makes size and checksums right where the table can be followed at all: the last step of writing,
 * and how tests get behind the checksums. */
void lw__plan_file_seal(void *data, size_t bytes);

#endif
