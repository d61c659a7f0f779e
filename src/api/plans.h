/* plans.h: whole compiled plans from one start to the next: in the cache, and as files.
 *
 * A plan's key covers every byte of the model's file (the passes fold constants and order operands
 * by what is in them), every option that is not about where to run or build, the device profile,
 * the compiler with its flags and the CPU's features, and the build of lawson itself. Files beside
 * the model are named in the plan with their hashes. */
#ifndef LW_API_PLANS_H
#define LW_API_PLANS_H

#include "api/model.h"

/* Whether loading with these options looks for a plan in the cache, and keeps what it compiles. */
bool lw__plans_wanted(const lw_options *options);
/* The plan of the model at |path|, its device chosen, into |model| (|*out_found|). A plan that is
 * damaged or that does not fit is none; what is wrong with the model's file is for the importer to
 * say. */
lw_status lw__plans_find(lw_model *model, const char *path, const lw_options *options,
                         lw_cache *cache, bool *out_found) LW_MUST_CHECK;
/* Keeps what was compiled, with the messages from |first_message| on. Not being able to costs time
 * at the next start; the cache reports it. */
lw_status lw__plans_keep(lw_model *model, const char *path, const lw_options *options,
                         uint32_t first_message, lw_cache *cache) LW_MUST_CHECK;

/* The same for one shape of a model with open dimensions. The graph of |variant| is there, with
 * numbers everywhere; its constants lie in the files of |files|, which holds none when the model is
 * no file. */
lw_status lw__plans_find_variant(lw_model *variant, const lw_graph *files,
                                 const lw_options *options, lw_cache *cache,
                                 bool *out_found) LW_MUST_CHECK;
lw_status lw__plans_keep_variant(lw_model *variant, const lw_graph *files,
                                 const lw_options *options, uint32_t first_message,
                                 lw_cache *cache) LW_MUST_CHECK;

/* True when the file at |path| begins like a plan file. */
bool lw__plans_is_file(const char *path);
/* A plan file into |model|, and its device opened. */
lw_status lw__plans_load(lw_model *model, const char *path, const lw_options *options)
    LW_MUST_CHECK;

#endif
