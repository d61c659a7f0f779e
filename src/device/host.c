/* host.c: name and instruction sets of the processor, from /proc/cpuinfo. */
#include "device/host.h"

#include <stdio.h>
#include <string.h>

/* Beginnings of the flags that a C compiler makes code for; the others (power, virtual machines,
 * bugs) come and go with kernels. */
static const char *const host_sets[] = {
    "sse",    "ssse",  "avx",  "amx",   "fma",   "f16c",  "bmi",   "abm",     "lzcnt",
    "popcnt", "movbe", "adx",  "aes",   "sha",   "gfni",  "vaes",  "pclmul",  "vpclmul",
    "xop",    "tbm",   "cx16", "rdrnd", "fp",    "asimd", "crc32", "atomics", "sve",
    "sme",    "bf16",  "i8mm", "dcpop", "lrcpc", "pmull"};

static bool host_is_set(const char *word, size_t length) {
  for (size_t i = 0; i < LW_ARRAY_COUNT(host_sets); i++) {
    size_t n = strlen(host_sets[i]);
    if (n <= length && strncmp(word, host_sets[i], n) == 0) return true;
  }
  return false;
}

/* What stands behind "key : ", without the end of the line; NULL when the line has another key. */
static const char *host_value(char *line, const char *key) {
  size_t n = strlen(key);
  if (strncmp(line, key, n) != 0) return NULL;
  char *value = line + n + strspn(line + n, " \t");
  if (*value != ':') return NULL;
  value[strcspn(value, "\n")] = '\0';
  return value + 1 + strspn(value + 1, " \t");
}

static void host_add_sets(const char *flags, lw_host_cpu *out) {
  size_t used = 0;
  while (*flags != '\0') {
    size_t length = strcspn(flags, " ");
    if (length > 0 && host_is_set(flags, length) && used + length + 2 < sizeof out->isa) {
      if (used > 0) out->isa[used++] = ' ';
      memcpy(out->isa + used, flags, length);
      used += length;
      out->isa[used] = '\0';
    }
    flags += length;
    flags += strspn(flags, " ");
  }
}

void lw__host_cpu_of(const char *path, lw_host_cpu *out) {
  *out = (lw_host_cpu){.name = "CPU"};
  FILE *file = fopen(path, "re");
  if (file == NULL) return;
  char line[8192];
  while (fgets(line, sizeof line, file) != NULL && line[0] != '\n') {
    const char *name = host_value(line, "model name");
    const char *flags = host_value(line, "flags");
    if (flags == NULL) flags = host_value(line, "Features");
    if (name != NULL) (void)snprintf(out->name, sizeof out->name, "%s", name);
    if (flags != NULL && out->isa[0] == '\0') host_add_sets(flags, out);
  }
  (void)fclose(file);
}

void lw__host_cpu(lw_host_cpu *out) { lw__host_cpu_of("/proc/cpuinfo", out); }

/* Whether |list| holds the word. */
static bool host_holds(const char *list, const char *word, size_t length) {
  while (*list != '\0') {
    size_t n = strcspn(list, " ");
    if (n == length && strncmp(list, word, n) == 0) return true;
    list += n;
    list += strspn(list, " ");
  }
  return false;
}

lw_str lw__host_cpu_lacks(const lw_host_cpu *cpu, const char *isa) {
  while (*isa != '\0') {
    size_t length = strcspn(isa, " ");
    if (length > 0 && !host_holds(cpu->isa, isa, length)) return lw__str(isa, length);
    isa += length;
    isa += strspn(isa, " ");
  }
  return lw__str("", 0);
}
