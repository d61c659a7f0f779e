/* memory.h: device memory of the look-alike: host memory between guard zones, with a log of the
 * bytes that the operation which runs now reads and writes. */
#ifndef LW_TESTS_STANDIN_MEMORY_H
#define LW_TESTS_STANDIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Aligned to 256 bytes and filled with NaNs. NULL when there is none. */
void *memory_alloc(size_t bytes);
bool memory_free(void *memory); /* false: no such block */
void memory_free_all(void);
/* Whether the bytes lie in one block. */
bool memory_holds(const void *at, size_t bytes);
/* Whether somebody touched a guard zone since the last call, and how. Looks at all blocks. */
bool memory_guards_broken(char *out_text, size_t bytes);

/* ---- what operations touch ---- */

/* Ignores what is no device memory. */
void memory_touch(const void *at, size_t bytes, bool write);
typedef struct memory_log memory_log;
/* What was touched since the last call; NULL: nothing. */
memory_log *memory_take_log(void);
void memory_free_log(memory_log *log);
/* A byte that both touch and one of them writes; NULL when there is none. */
const void *memory_conflict(const memory_log *a, const memory_log *b);

#endif
