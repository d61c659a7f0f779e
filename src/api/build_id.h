/* build_id.h: which build of lawson this is. */
#ifndef LW_API_BUILD_ID_H
#define LW_API_BUILD_ID_H

#include "base/base.h"

/* The linker's hash of the program or library that holds this code, in hexadecimal: it changes with
 * every byte of it. "" when it was linked without one (-Wl,--build-id); then nothing that another
 * build made may be taken for our own. */
void lw__build_id(char out[65]);

#endif
