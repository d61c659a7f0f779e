/* build_id.c: finds the GNU build id note of the object that this code was linked into. */
#include "api/build_id.h"

#include <elf.h>
#include <link.h>
#include <string.h>

typedef struct id_search {
  uintptr_t inside; /* an address of the object */
  char *out;
} id_search;

static void id_hex(const uint8_t *bytes, size_t count, char *out) {
  static const char digits[] = "0123456789abcdef";
  if (count > 32) count = 32;
  for (size_t i = 0; i < count; i++) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15];
  }
  out[2 * count] = '\0';
}

/* Notes are a header, a name and a description, both padded to four bytes. */
static void id_read_notes(const uint8_t *at, size_t bytes, char *out) {
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    memcpy(&note, at, sizeof note);
    size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
    size_t length = ((size_t)note.n_descsz + 3) & ~(size_t)3;
    if (name > bytes - sizeof note || length > bytes - sizeof note - name) return;
    const uint8_t *text = at + sizeof note;
    bool gnu = note.n_namesz == 4 && memcmp(text, "GNU", 4) == 0;
    if (gnu && note.n_type == NT_GNU_BUILD_ID) id_hex(text + name, note.n_descsz, out);
    at += sizeof note + name + length;
    bytes -= sizeof note + name + length;
  }
}

static int id_object(struct dl_phdr_info *info, size_t size, void *data) {
  const id_search *search = data;
  (void)size;
  bool ours = false;
  for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    uintptr_t begin = (uintptr_t)info->dlpi_addr + p->p_vaddr;
    ours |= p->p_type == PT_LOAD && search->inside >= begin && search->inside - begin < p->p_memsz;
  }
  for (ElfW(Half) i = 0; ours && i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_NOTE) continue;
    id_read_notes((const uint8_t *)((uintptr_t)info->dlpi_addr + p->p_vaddr), p->p_memsz,
                  search->out);
  }
  return ours;
}

void lw__build_id(char out[65]) {
  out[0] = '\0';
  id_search search = {.inside = (uintptr_t)&id_object, .out = out};
  (void)dl_iterate_phdr(id_object, &search);
}
