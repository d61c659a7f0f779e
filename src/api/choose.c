/* choose.c: from the options "device" and "target" to an opened device and a profile. */
#include <stdio.h>
#include <string.h>

#include "api/model.h"

/* Architectures with a profile, newest first, by the names that lw__device_profile_find knows. */
static const struct {
  uint32_t sm_arch;
  const char *name;
} choose_profiles[] = {
    {100, "sm_100"}, {90, "sm_90a"}, {89, "sm_89"}, {86, "sm_86"}, {80, "sm_80"}};

static lw_status choose_cpu(lw_device_profile *out_profile, const char **out_target) {
  const lw_device_profile *cpu = lw__device_profile_find("cpu");
  if (cpu == NULL) return LW_STATUS_INTERNAL;
  *out_profile = *cpu;
  lw__device_profile_adapt(out_profile);
  *out_target = "cpu";
  return LW_OK;
}

lw_status lw__profile_of_device(const lw_rt_device_info *info, lw_arena *arena, lw_diag *diag,
                                lw_device_profile *out_profile, const char **out_target) {
  if (strcmp(info->kind, "cuda") != 0) return choose_cpu(out_profile, out_target);
  const lw_device_profile *found = NULL;
  for (size_t i = 0; found == NULL && i < LW_ARRAY_COUNT(choose_profiles); i++) {
    if (choose_profiles[i].sm_arch > info->sm_arch) continue;
    found = lw__device_profile_find(choose_profiles[i].name);
  }
  if (found == NULL) {
    return lw__fail(diag, LW_STATUS_UNSUPPORTED, info->name,
                    "GPUs of architecture sm_%u are not supported; sm_80 and newer are",
                    info->sm_arch);
  }
  *out_profile = *found;
  if (found->sm_arch != info->sm_arch) { /* its code, this device's attributes */
    out_profile->sm_arch = info->sm_arch;
    out_profile->arch_specific = info->arch_specific;
    out_profile->name = info->name;
  }
  if (info->sm_count != 0) out_profile->sm_count = info->sm_count;
  return lw__arena_printf(arena, out_target, "cuda:sm_%u%s", out_profile->sm_arch,
                          out_profile->arch_specific ? "a" : "");
}

/* "cuda:0" for "cuda" and "auto", the number kept otherwise. */
static lw_status choose_device_name(lw_model *model, const char *spec, const char *kind) {
  if (strcmp(kind, "cuda") != 0) {
    model->device = strcmp(kind, "null") == 0 ? "null" : "cpu";
    return LW_OK;
  }
  const char *name = strncmp(spec, "cuda:", 5) == 0 ? spec : "cuda:0";
  return lw__arena_strndup(&model->arena, name, strlen(name), &model->device);
}

static lw_status choose_target(lw_model *model, const char *target) {
  const lw_device_profile *profile = lw__device_profile_find(target);
  if (profile == NULL) return LW_STATUS_INTERNAL; /* the options let only known names in */
  model->profile = *profile;
  lw__device_profile_adapt(&model->profile);
  if (profile->kind == LW_DEVICE_CPU) {
    model->target = "cpu";
    return LW_OK;
  }
  return lw__arena_printf(&model->arena, &model->target, "cuda:%s", target);
}

/* Code made for |target| must run on the device: the same kind, no newer an architecture, and for
 * the 'a' features the very same. */
static lw_status choose_check(lw_model *model, const lw_rt_device_info *info) {
  const lw_device_profile *p = &model->profile;
  if (strcmp(info->kind, "null") == 0) return LW_OK;
  bool cuda = strcmp(info->kind, "cuda") == 0;
  bool fits = cuda == (p->kind == LW_DEVICE_CUDA);
  if (fits && cuda) {
    fits = p->arch_specific ? p->sm_arch == info->sm_arch : p->sm_arch <= info->sm_arch;
  }
  if (fits) return LW_OK;
  return lw__fail(
      &model->diag, LW_STATUS_USAGE, "option target",
      "code for %s does not run on device %s (%s); option compile_only (--compile-only) "
      "needs none",
      model->target, model->device, info->name);
}

static const char *choose_none(const lw_options *options) {
  return strcmp(options->device, "null") == 0 ? "null" : "none";
}

lw_rt_device_options lw__device_options(const lw_options *options) {
  return (lw_rt_device_options){.threads = options->threads,
                                .cuda_path = options->cuda,
                                .cupti_path = options->cupti,
                                .graph_min_steps = options->graphs ? 0 : UINT32_MAX};
}

lw_status lw__model_choose_device(lw_model *model, const lw_options *options) {
  bool named = options->target != NULL;
  if (named) LW_TRY(choose_target(model, options->target));
  model->device = choose_none(options);
  if (options->compile_only && named) return LW_OK;
  if (options->compile_only && strcmp(options->device, "cpu") == 0) {
    return choose_cpu(&model->profile, &model->target);
  }
  lw_rt_device_options rt = lw__device_options(options);
  LW_TRY(lw__rt_device_open(options->device, &rt, &model->diag, &model->rt_device));
  lw_rt_device_info info = {0};
  lw__rt_device_info(model->rt_device, &info);
  LW_TRY(choose_device_name(model, options->device, info.kind));
  if (named) return choose_check(model, &info);
  return lw__profile_of_device(&info, &model->arena, &model->diag, &model->profile, &model->target);
}
