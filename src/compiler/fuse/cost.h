/* cost.h: what a placed region moves and computes, for the roofline. */
#ifndef LW_COMPILER_COST_H
#define LW_COMPILER_COST_H

#include "compiler/fuse/region.h"
#include "device/device.h"

/* Counts the work of a region placed in its plain space (one variable per extent). Bytes: every
 * distinct input once, every output once; gathers count the elements they touch. Instruction slots:
 * per element of the space, and per use of a factor for contractions whose operands are computed on
 * the fly. */
lw_status lw__cost_region(const lw_region *region, const lw_device_profile *profile,
                          lw_work *out) LW_MUST_CHECK;

#endif
