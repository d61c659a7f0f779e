/* host.h: what translated kernels ask of the executor (simt.c). */
#ifndef LW_TESTS_STANDIN_HOST_H
#define LW_TESTS_STANDIN_HOST_H

struct standin_index {
  unsigned x, y, z;
};

/* What the look-alike puts into a tensor map. */
#define STANDIN_MAP_MAGIC 0x70616d726f736e74ull
#define STANDIN_MAP_RANK 5
struct standin_map {
  unsigned long long magic, address;
  int type;
  unsigned short rank, elem_bytes;
  unsigned long long dims[STANDIN_MAP_RANK];
  unsigned long long strides[STANDIN_MAP_RANK]; /* bytes */
};

struct standin_host {
  struct standin_index thread, block, block_dim, grid_dim;
  unsigned char *dynamic; /* dynamic shared memory of the block */
  void (*barrier)(void);
  void (*warp_barrier)(void);
  /* Replaces *value by the value of the lane whose number differs by xor |apart|. */
  void (*shuffle_xor)(unsigned mask, void *value, unsigned long bytes, int apart);
  /* all[lane] = *value of every lane of the warp, |bytes| <= 16 each; the warp arrives whole. */
  void (*gather)(const void *value, unsigned long bytes, void *all);
  float (*f16_to_f32)(unsigned short bits);
  unsigned short (*f32_to_f16)(float x);
  unsigned short (*f32_to_bf16)(float x);
  /* Bytes are read or written, on the device or elsewhere. */
  void (*touch)(const void *at, unsigned long bytes, int write);
};

#endif
