/* nvrtc.c: finds and opens NVRTC. */
#include "compiler/build/nvrtc.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define NVRTC_TOOLKITS "/usr/local"
#define NVRTC_TOOLKITS_MAX 32

static const char *const nvrtc_sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

typedef struct nvrtc_search {
  lw_nvrtc *out;
  lw_text tried; /* why the candidates so far did not do */
} nvrtc_search;

static bool nvrtc_try(nvrtc_search *s, const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == NULL) {
    const char *reason = dlerror();
    lw__text_add(&s->tried, "\n  %s", reason == NULL ? path : reason);
    return false;
  }
  lw_nvrtc found = {.handle = handle};
  const char *missing = NULL;
#define NVRTC_FIND(name, result, parameters)     \
  if (missing == NULL) {                         \
    void *symbol = dlsym(handle, "nvrtc" #name); \
    if (symbol == NULL) missing = "nvrtc" #name; \
    memcpy(&found.name, &symbol, sizeof symbol); \
  }
  LW_NVRTC_SYMBOLS(NVRTC_FIND)
#undef NVRTC_FIND
  if (missing != NULL) {
    lw__text_add(&s->tried, "\n  %s: has no %s", path, missing);
    (void)dlclose(handle);
    return false;
  }
  *s->out = found;
  return true;
}

static bool nvrtc_try_folder(nvrtc_search *s, const char *folder, size_t length) {
  for (size_t i = 0; i < LW_ARRAY_COUNT(nvrtc_sonames); i++) {
    lw_text path = {0};
    lw__text_add(&path, "%.*s/%s", (int)length, folder, nvrtc_sonames[i]);
    bool found = path.status == LW_OK && nvrtc_try(s, path.data);
    lw__text_deinit(&path);
    if (found) return true;
  }
  return false;
}

/* Newer versions first: 12.10 before 12.9. */
static int nvrtc_compare(const void *a, const void *b) {
  return strverscmp((const char *)b, (const char *)a);
}

static bool nvrtc_try_toolkits(nvrtc_search *s) {
  if (nvrtc_try_folder(s, NVRTC_TOOLKITS "/cuda/lib64", strlen(NVRTC_TOOLKITS "/cuda/lib64"))) {
    return true;
  }
  DIR *folder = opendir(NVRTC_TOOLKITS);
  if (folder == NULL) return false;
  char names[NVRTC_TOOLKITS_MAX][64];
  size_t count = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL && count < NVRTC_TOOLKITS_MAX;) {
    size_t length = strlen(entry->d_name);
    if (strncmp(entry->d_name, "cuda-", 5) != 0 || length >= sizeof names[0]) continue;
    memcpy(names[count++], entry->d_name, length + 1);
  }
  (void)closedir(folder);
  qsort(names, count, sizeof names[0], nvrtc_compare);
  bool found = false;
  for (size_t i = 0; i < count && !found; i++) {
    lw_text path = {0};
    lw__text_add(&path, NVRTC_TOOLKITS "/%s/lib64", names[i]);
    found = path.status == LW_OK && nvrtc_try_folder(s, path.data, path.len);
    lw__text_deinit(&path);
  }
  return found;
}

static bool nvrtc_search_all(nvrtc_search *s, const char *folders) {
  for (size_t i = 0; i < LW_ARRAY_COUNT(nvrtc_sonames); i++) {
    if (nvrtc_try(s, nvrtc_sonames[i])) return true;
  }
  if (nvrtc_try_toolkits(s)) return true;
  while (folders != NULL && *folders != '\0') {
    size_t length = strcspn(folders, ":");
    if (length != 0 && nvrtc_try_folder(s, folders, length)) return true;
    folders += length;
    if (*folders == ':') folders++;
  }
  return false;
}

lw_status lw__nvrtc_open(const char *path, const char *search, lw_diag *diag, lw_nvrtc *out) {
  *out = (lw_nvrtc){0};
  nvrtc_search s = {.out = out};
  bool found = path != NULL && path[0] != '\0' ? nvrtc_try(&s, path) : nvrtc_search_all(&s, search);
  lw_status status = LW_OK;
  if (!found) {
    status = lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cuda",
                      "the run-time compiler NVRTC was not found:%s", lw__text_str(&s.tried));
  }
  lw__text_deinit(&s.tried);
  return status;
}

void lw__nvrtc_close(lw_nvrtc *nvrtc) {
  if (nvrtc->handle != NULL) (void)dlclose(nvrtc->handle);
  *nvrtc = (lw_nvrtc){0};
}

const char *lw__nvrtc_file(const lw_nvrtc *nvrtc) {
  struct link_map *map = NULL;
  if (dlinfo(nvrtc->handle, RTLD_DI_LINKMAP, &map) != 0 || map == NULL || map->l_name == NULL)
    return "";
  return map->l_name;
}
