/* shapes.h: models with dimensions that only a run decides. Such a model compiles for sizes of its
 * open symbols when a run first needs them; what it has compiled are *variants*, each a model of
 * its own with numbers everywhere, at most |max_shapes| of them, the least recently used going
 * first.
 *
 * A symbol with a ladder of sizes is compiled for these alone: a run takes the smallest that is
 * large enough and computes the rows too many, too, where lw__rows_prove says that they reach no
 * result. Where it does not, and above the ladder's end, and without a ladder, sizes are exact.
 *
 * Threads: every function may be called by several at once; a shape is compiled once. */
#ifndef LW_API_SHAPES_H
#define LW_API_SHAPES_H

#include "api/model.h"
#include "graph/rows.h"

#define LW_SHAPES_MAX_SYMBOLS 64

typedef struct lw_open_symbol {
  const char *name;
  const lw_ladder *ladder; /* NULL: exact sizes */
  const char *refusal;     /* why a ladder that was asked for is not used; else NULL */
} lw_open_symbol;

/* One dim of an input as the model says it: a number, or symbol |symbol|. */
typedef struct lw_open_dim {
  int64_t number;
  uint32_t symbol; /* LW_NONE: |number| */
} lw_open_dim;

typedef enum lw_variant_state {
  LW_VARIANT_BUILDING,
  LW_VARIANT_READY,
  LW_VARIANT_FAILED
} lw_variant_state;

typedef struct lw_variant {
  uint32_t references; /* under the lock */
  lw_variant_state state;
  int64_t *sizes;  /* per symbol */
  bool *padded;    /* per symbol: smaller sizes may run in it */
  lw_model *model;
  /* Per symbol and port (inputs, then outputs): where its rows are. NULL unless |padded|. */
  lw_rows_place **places;
  uint64_t used; /* when, in uses */
  lw_arena arena;
} lw_variant;

typedef struct lw_shapes {
  lw_arena arena;
  lw_options *options;
  const char *path; /* of the file that is imported again for each shape; NULL: |model->graph| has
                       the symbols in it */
  lw_open_symbol *symbols;
  uint32_t symbol_count;
  lw_open_dim **inputs; /* per input, per dim */
  uint32_t max_variants;

  pthread_mutex_t lock; /* guards what follows, and the state of variants */
  pthread_cond_t changed;
  LW_VEC(lw_variant *) variants;
  lw_variant *base; /* the first one that was compiled: it stays, and others share its weights */
  uint64_t uses, compiled;
} lw_shapes;

/* Whether the graph has inputs with symbols left. */
bool lw__shapes_are_open(const lw_graph *graph);
/* For a model whose graph has symbols in its inputs (its infos are made, its device is chosen).
 * With a ladder for every symbol the largest sizes are compiled now. */
lw_status lw__shapes_create(lw_model *model, const lw_options *options) LW_MUST_CHECK;
/* For a file that cannot be imported with symbols, but with numbers: its shape arithmetic needs
 * them. What importing it said stands in the model's messages from |first_message| on; it goes, and
 * becomes a warning where ladders were asked for. Makes the model's infos, too, and needs no
 * device. LW_STATUS_UNSUPPORTED, with nothing said, when no dimension is open or numbers do not
 * help either. */
lw_status lw__shapes_create_from_file(lw_model *model, const char *path, const lw_options *options,
                                      uint32_t first_message) LW_MUST_CHECK;
void lw__shapes_destroy(lw_shapes *shapes);

/* The numbers of all symbols from the shapes of all inputs; |dims[i]| of input i, of the right
 * rank. LW_STATUS_USAGE, naming input and dimension, when they contradict each other or the
 * model. */
lw_status lw__shapes_solve(const lw_model *model, const int64_t *const *dims, lw_diag *diag,
                           int64_t *out_numbers) LW_MUST_CHECK;
/* The variant to run |numbers| in, compiled if need be; one reference for the caller. */
lw_status lw__shapes_acquire(lw_model *model, const int64_t *numbers, lw_diag *diag,
                             lw_variant **out) LW_MUST_CHECK;
void lw__shapes_release(lw_model *model, lw_variant *variant);
/* The rank, and the shape that output or input |port| (outputs stand behind the inputs) has in a
 * run with |numbers| in |variant|, and which of its dims are shorter than the variant's. */
int lw__shapes_port_dims(const lw_model *model, const lw_variant *variant, uint32_t port,
                         const int64_t *numbers, int64_t *out_dims, uint32_t *out_shorter);
/* The graph with numbers for all symbols. */
lw_status lw__shapes_graph(const lw_model *model, const int64_t *numbers, lw_diag *diag,
                           lw_graph *out) LW_MUST_CHECK;
/* The options' numbers and the shape of every input, for the importer. */
lw_status lw__shapes_import_options(const lw_model *model, const int64_t *numbers, lw_arena *arena,
                                    lw_import_options *out) LW_MUST_CHECK;
/* Whether smaller sizes of symbol |s| may run in |bound|, whose sizes are |sizes|. */
lw_status lw__shapes_prove(const lw_model *model, const lw_graph *bound, const int64_t *sizes,
                           uint32_t s, lw_arena *arena, lw_rows_proof *out) LW_MUST_CHECK;
#endif
