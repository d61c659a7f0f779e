/* product_sm90_helpers.c: the PTX that matrix products on sm_90a use, each instruction behind one
 * small function: barriers in shared memory, tensor copies, wgmma's fences, stmatrix. Addresses in
 * shared memory are unsigned (the shared window's own). */
#include "compiler/emit/product_sm90_helpers.h"

#define PLAIN(name, source) \
  { name, 0, 0, source }

static const lw_helper rows[] = {
    PLAIN("lw_tensor_map", "struct alignas(64) lw_tensor_map { unsigned long long words[16]; };"),
    PLAIN("lw_shared_address",
          "LW_HELPER unsigned lw_shared_address(const void *p) {\n"
          "  return (unsigned)__cvta_generic_to_shared(p);\n"
          "}"),
    PLAIN("lw_registers_fewer",
          "template <int count> LW_HELPER void lw_registers_fewer() {\n"
          "  asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" ::\"n\"(count));\n"
          "}"),
    PLAIN("lw_registers_more",
          "template <int count> LW_HELPER void lw_registers_more() {\n"
          "  asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" ::\"n\"(count));\n"
          "}"),
    /* True in one thread of the warp. The assembler knows this instruction, and issues copies
     * behind it without a loop over threads. */
    PLAIN("lw_one_thread",
          "LW_HELPER bool lw_one_thread() {\n"
          "  unsigned chosen;\n"
          "  asm volatile(\"{\\n.reg .pred p;\\nelect.sync _|p, 0xffffffff;\\n\"\n"
          "               \"selp.u32 %0, 1, 0, p;\\n}\"\n"
          "               : \"=r\"(chosen));\n"
          "  return chosen != 0;\n"
          "}"),
    /* barriers in shared memory */
    PLAIN("lw_barrier_init",
          "LW_HELPER void lw_barrier_init(unsigned at, int count) {\n"
          "  asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" ::\"r\"(at), \"r\"(count)\n"
          "               : \"memory\");\n"
          "}"),
    PLAIN("lw_barrier_init_done",
          "LW_HELPER void lw_barrier_init_done() {\n"
          "  asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n"
          "  asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
          "}"),
    PLAIN("lw_barrier_expect",
          "LW_HELPER void lw_barrier_expect(unsigned at, int bytes) {\n"
          "  asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" ::\"r\"(at),\n"
          "               \"r\"(bytes)\n"
          "               : \"memory\");\n"
          "}"),
    PLAIN("lw_barrier_arrive",
          "LW_HELPER void lw_barrier_arrive(unsigned at) {\n"
          "  asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" ::\"r\"(at) : \"memory\");\n"
          "}"),
    /* Says that reads are over and publishes nothing: release at the scope of the cluster would put
     * a memory barrier of the whole GPU before it, a microsecond per step. */
    PLAIN("lw_barrier_arrive_at",
          "LW_HELPER void lw_barrier_arrive_at(unsigned at, unsigned rank) {\n"
          "  asm volatile(\n"
          "      \"{\\n.reg .b32 r;\\nmapa.shared::cluster.u32 r, %0, %1;\\n\"\n"
          "      \"mbarrier.arrive.shared::cluster.b64 _, [r];\\n}\" ::\"r\"(at),\n"
          "      \"r\"(rank)\n"
          "      : \"memory\");\n"
          "}"),
    PLAIN("lw_barrier_wait",
          "LW_HELPER void lw_barrier_wait(unsigned at, unsigned parity) {\n"
          "  unsigned done;\n"
          "#ifdef LW_WATCHDOG_CYCLES\n"
          "  long long start = clock64();\n"
          "#endif\n"
          "  do {\n"
          "    asm volatile(\n"
          "        \"{\\n.reg .pred p;\\n\"\n"
          "        \"mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\n\"\n"
          "        \"selp.u32 %0, 1, 0, p;\\n}\"\n"
          "        : \"=r\"(done)\n"
          "        : \"r\"(at), \"r\"(parity)\n"
          "        : \"memory\");\n"
          "#ifdef LW_WATCHDOG_CYCLES\n"
          "    if (!done && clock64() - start > LW_WATCHDOG_CYCLES) __trap();\n"
          "#endif\n"
          "  } while (!done);\n"
          "}"),
    PLAIN("lw_group_sync",
          "template <int threads> LW_HELPER void lw_group_sync(int group) {\n"
          "  if (group == 1)\n"
          "    asm volatile(\"bar.sync 1, %0;\" ::\"n\"(threads) : \"memory\");\n"
          "  else\n"
          "    asm volatile(\"bar.sync 2, %0;\" ::\"n\"(threads) : \"memory\");\n"
          "}"),
    PLAIN("lw_cluster_rank",
          "LW_HELPER unsigned lw_cluster_rank() {\n"
          "  unsigned r;\n"
          "  asm(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(r));\n"
          "  return r;\n"
          "}"),
    PLAIN("lw_cluster_sync",
          "LW_HELPER void lw_cluster_sync() {\n"
          "  asm volatile(\"barrier.cluster.arrive.release;\\nbarrier.cluster.wait.acquire;\" :::\n"
          "               \"memory\");\n"
          "}"),
    /* sums in shared memory, for all blocks of the cluster */
    PLAIN("lw_shared_put_two",
          "LW_HELPER void lw_shared_put_two(unsigned at, float x, float y) {\n"
          "  asm volatile(\"st.shared.v2.f32 [%0], {%1, %2};\" ::\"r\"(at), \"f\"(x), \"f\"(y)\n"
          "               : \"memory\");\n"
          "}"),
    PLAIN("lw_cluster_get",
          "LW_HELPER float lw_cluster_get(unsigned at, unsigned rank) {\n"
          "  float x;\n"
          "  asm volatile(\n"
          "      \"{\\n.reg .b32 r;\\nmapa.shared::cluster.u32 r, %1, %2;\\n\"\n"
          "      \"ld.shared::cluster.f32 %0, [r];\\n}\"\n"
          "      : \"=f\"(x)\n"
          "      : \"r\"(at), \"r\"(rank)\n"
          "      : \"memory\");\n"
          "  return x;\n"
          "}"),
    /* tensor copies; |x| is the inner coordinate */
    PLAIN("lw_tensor_prefetch",
          "LW_HELPER void lw_tensor_prefetch(const lw_tensor_map *map) {\n"
          "  asm volatile(\"prefetch.tensormap [%0];\" ::\"l\"(map) : \"memory\");\n"
          "}"),
    PLAIN("lw_tensor_load",
          "LW_HELPER void lw_tensor_load(unsigned to, const lw_tensor_map *map, int x, int y,\n"
          "                              unsigned barrier) {\n"
          "  asm volatile(\n"
          "      "
          "\"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\"\n"
          "      \" [%0], [%1, {%2, %3}], [%4];\" ::\"r\"(to), \"l\"(map), \"r\"(x), \"r\"(y),\n"
          "      \"r\"(barrier)\n"
          "      : \"memory\");\n"
          "}"),
    PLAIN(
        "lw_tensor_load_both",
        "LW_HELPER void lw_tensor_load_both(unsigned to, const lw_tensor_map *map, int x, int y,\n"
        "                                   unsigned barrier) {\n"
        "  asm volatile(\n"
        "      "
        "\"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\"\n"
        "      \".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;\" ::\"r\"(to), \"l\"(map),\n"
        "      \"r\"(x), \"r\"(y), \"r\"(barrier), \"h\"((unsigned short)3)\n"
        "      : \"memory\");\n"
        "}"),
    PLAIN(
        "lw_tensor_store",
        "LW_HELPER void lw_tensor_store(const lw_tensor_map *map, int x, int y, unsigned from) {\n"
        "  asm volatile(\n"
        "      \"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], "
        "[%3];\"\n"
        "      \"\\ncp.async.bulk.commit_group;\" ::\"l\"(map), \"r\"(x), \"r\"(y), \"r\"(from)\n"
        "      : \"memory\");\n"
        "}"),
    PLAIN("lw_tensor_stores_read",
          "template <int left> LW_HELPER void lw_tensor_stores_read() {\n"
          "  asm volatile(\"cp.async.bulk.wait_group.read %0;\" ::\"n\"(left) : \"memory\");\n"
          "}"),
    PLAIN("lw_tensor_stores_done",
          "LW_HELPER void lw_tensor_stores_done() {\n"
          "  asm volatile(\"cp.async.bulk.wait_group 0;\" ::: \"memory\");\n"
          "}"),
    PLAIN("lw_async_fence",
          "LW_HELPER void lw_async_fence() {\n"
          "  asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
          "}"),
    /* multiplying; the instruction itself is printed per shape */
    PLAIN("lw_mma_fence",
          "LW_HELPER void lw_mma_fence() {\n"
          "  asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
          "}"),
    PLAIN("lw_mma_commit",
          "LW_HELPER void lw_mma_commit() {\n"
          "  asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");\n"
          "}"),
    PLAIN("lw_mma_wait",
          "template <int left> LW_HELPER void lw_mma_wait() {\n"
          "  asm volatile(\"wgmma.wait_group.sync.aligned %0;\" ::\"n\"(left) : \"memory\");\n"
          "}"),
    /* Keeps the compiler from moving uses of sums across. */
    PLAIN("lw_mma_pin",
          "template <int count> LW_HELPER void lw_mma_pin(float (&sums)[count]) {\n"
          "#pragma unroll\n"
          "  for (int i = 0; i < count; i++) asm volatile(\"\" : \"+f\"(sums[i])::\"memory\");\n"
          "}"),
    /* results */
    PLAIN("lw_here",
          "LW_HELPER int lw_here(int x) {\n"
          "  asm volatile(\"\" : \"+r\"(x)::\"memory\");\n"
          "  return x;\n"
          "}"),
    PLAIN("lw_pack_f16",
          "LW_HELPER unsigned lw_pack_f16(float low, float high) {\n"
          "  unsigned r;\n"
          "  asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(r) : \"f\"(high), \"f\"(low));\n"
          "  return r;\n"
          "}"),
    PLAIN("lw_pack_bf16",
          "LW_HELPER unsigned lw_pack_bf16(float low, float high) {\n"
          "  unsigned r;\n"
          "  asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(r) : \"f\"(high), \"f\"(low));\n"
          "  return r;\n"
          "}"),
    PLAIN(
        "lw_matrix_store",
        "LW_HELPER void lw_matrix_store(unsigned at, const unsigned (&w)[4]) {\n"
        "  asm volatile(\n"
        "      \"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\" ::\"r\"(at),\n"
        "      \"r\"(w[0]), \"r\"(w[1]), \"r\"(w[2]), \"r\"(w[3])\n"
        "      : \"memory\");\n"
        "}"),
    /* Which tile comes as number |tile|: |group| rows of tiles are walked column by column, so that
     * what is worked on at a time is about as high as it is wide. */
    PLAIN("lw_raster",
          "LW_HELPER void lw_raster(int tile, int tiles_m, int tiles_n, int group, int *m, int *n) "
          "{\n"
          "  const int band = tile / (group * tiles_n), first = band * group;\n"
          "  const int height = min(group, tiles_m - first), place = tile - first * tiles_n;\n"
          "  *n = place / height;\n"
          "  *m = first + place - *n * height;\n"
          "}"),
};

const lw_helper_table lw__emit_helpers_product_sm90 = {rows, LW_ARRAY_COUNT(rows)};
