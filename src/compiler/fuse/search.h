/* search.h: state of the fusion search. Used by fuse.c only. */
#ifndef LW_COMPILER_SEARCH_H
#define LW_COMPILER_SEARCH_H

#include "compiler/fuse/cost.h"
#include "compiler/fuse/fuse.h"
#include "compiler/fuse/region.h"

typedef LW_VEC(lw_node_id) lw_vec_nodes;

typedef struct lw_group_price {
  lw_kclass cls;
  lw_work work;
  lw_cost cost;
  uint32_t buffers;
} lw_group_price;

typedef struct lw_search_group {
  lw_vec_nodes nodes;      /* ascending; empty once merged into another */
  lw_group_price price;
  uint32_t version; /* the clock when it last changed: no two states of any groups share one, but
                       for 0 = untouched */
  uint32_t visit;
  uint32_t place;          /* in an order in which no group reads from a later one */
  uint32_t first_edge;     /* into edges: nodes that read this group's results */
  uint32_t first_touch;    /* into touches: pairs with one end here */
} lw_search_group;

typedef struct lw_pair {
  lw_node_id producer, consumer;
  bool sibling;            /* both read one value; neither reads the other */
  bool forced, forbidden, fused;
  double gain, us_apart, us_together, bytes_apart, bytes_together;
  uint32_t version_a, version_b;
  const char *reason;
  char id[20];
} lw_pair;

typedef struct lw_search_edge { lw_node_id consumer; uint32_t next; } lw_search_edge;
typedef struct lw_touch { uint32_t pair, next; } lw_touch;
typedef struct lw_heap_item { double gain; uint32_t pair, version_a, version_b; } lw_heap_item;

typedef struct lw_search {
  lw_region_context *ctx;
  const lw_device_profile *profile;
  LW_VEC(lw_search_group) groups;
  uint32_t *group_of;      /* per node; LW_NONE: not a seed */
  LW_VEC(lw_pair) pairs;
  LW_VEC(lw_search_edge) edges;
  LW_VEC(lw_touch) touches;
  LW_VEC(lw_heap_item) heap;
  lw_vec_nodes merged;     /* scratch */
  LW_VEC(uint32_t) stack;  /* scratch */
  LW_VEC(uint32_t) at;     /* group at every place; LW_NONE: merged into another */
  uint32_t visit;
  uint32_t clock;          /* number of merges */
  bool has_forbidden;
  bool off;                /* forced pairs alone */
} lw_search;

lw_status lw__search_run(lw_search *search, const lw_fuse_options *options) LW_MUST_CHECK;
void lw__search_deinit(lw_search *search);

#endif
