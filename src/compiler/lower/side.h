/* side.h: horizontal fusion: small launches that do not depend on each other become one. */
#ifndef LW_COMPILER_SIDE_H
#define LW_COMPILER_SIDE_H

#include "compiler/lower/lower.h"

/* |lowered|: per group of |fusion|, complete. Groups of one level of the graph of groups (which are
 * independent of each other) whose kernels are single launches with equally many threads are put
 * side by side as long as all their blocks fit on the device at once: the first one of a bundle
 * gets the launch (lw_lowered.joined counts those that follow it), the others get none. Groups are
 * reordered so that a bundle stands together; the order stays one in which they can run. Products
 * that differ in threads only are lowered again to agree. */
lw_status lw__join_side_by_side(lw_region_context *ctx, const lw_lower_options *options,
                                lw_fusion *fusion, lw_lowered *lowered,
                                lw_diag *diag) LW_MUST_CHECK;

#endif
