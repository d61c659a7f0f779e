/* version.c: which lawson this is. */
#include <lawson/lawson.h>

#ifndef LW_VERSION
#define LW_VERSION "0.1.0"
#endif

const char *lw_version(void) { return LW_VERSION; }
