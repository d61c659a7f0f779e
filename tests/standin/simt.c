/* simt.c: blocks on the host. Every thread of a block has a stack of its own; it runs until it
 * meets others and is resumed when all that must be there have come. */
#include "standin/simt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "standin/memory.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define STACK_BYTES (128u << 10)
#define THREADS_MAX 1024u
#define DYNAMIC_BYTES (256u << 10)
/* Stack switching is beyond what sanitizers follow. */
#define UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

typedef enum fiber_state {
  FIBER_READY,
  FIBER_BARRIER,
  FIBER_WARP,
  FIBER_SHUFFLE,
  FIBER_GATHER,
  FIBER_DONE
} fiber_state;

typedef struct fiber {
  fiber_state state;
#if defined(__x86_64__)
  void *stack_pointer;
#else
  ucontext_t context;
#endif
  char *stack;
  unsigned mask, apart, bytes;
  unsigned char value[16], result[16];
  unsigned char *all; /* GATHER: where the values of the warp go */
} fiber;

static struct standin_host host;
static fiber fibers[THREADS_MAX];
static fiber *current;
static const simt_launch *launch_now;
static unsigned char dynamic_memory[DYNAMIC_BYTES] __attribute__((aligned(1024)));

/* ---- switching ---- */

#if defined(__x86_64__)
void simt_switch(void **save, void *load);
__asm__(
    ".text\n"
    ".globl simt_switch\n"
    ".hidden simt_switch\n"
    ".type simt_switch, @function\n"
    "simt_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size simt_switch, . - simt_switch\n");
static void *scheduler_pointer;
#else
static ucontext_t scheduler_context;
#endif

static UNCHECKED void fiber_yield(fiber_state state) {
  fiber *self = current;
  self->state = state;
#if defined(__x86_64__)
  simt_switch(&self->stack_pointer, scheduler_pointer);
#else
  swapcontext(&self->context, &scheduler_context);
#endif
}

static UNCHECKED void fiber_main(void) {
  launch_now->call(launch_now->parameters);
  for (;;) fiber_yield(FIBER_DONE);
}

static UNCHECKED void fiber_resume(unsigned t) {
  current = &fibers[t];
  host.thread.x = t;
#if defined(__x86_64__)
  simt_switch(&scheduler_pointer, current->stack_pointer);
#else
  swapcontext(&scheduler_context, &current->context);
#endif
}

static void fiber_start(unsigned t) {
  fiber *f = &fibers[t];
  f->state = FIBER_READY;
  if (f->stack == NULL) {
    f->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->stack == MAP_FAILED) abort();
  }
#if defined(__x86_64__)
  /* Six registers, the entry, and the place of a return address that nobody uses. */
  void **top = (void **)(void *)(f->stack + STACK_BYTES - 64);
  memset(top, 0, 64);
  void (*entry)(void) = fiber_main;
  memcpy(&top[6], &entry, sizeof entry);
  f->stack_pointer = top;
#else
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = STACK_BYTES;
  f->context.uc_link = NULL;
  makecontext(&f->context, fiber_main, 0);
#endif
}

/* ---- what kernels call ---- */

static UNCHECKED void host_barrier(void) { fiber_yield(FIBER_BARRIER); }
static UNCHECKED void host_warp_barrier(void) { fiber_yield(FIBER_WARP); }

static UNCHECKED void host_shuffle_xor(unsigned mask, void *value, unsigned long bytes, int apart) {
  fiber *self = current;
  self->mask = mask;
  self->apart = (unsigned)apart;
  self->bytes = (unsigned)bytes;
  for (unsigned long i = 0; i < bytes; i++) self->value[i] = ((unsigned char *)value)[i];
  fiber_yield(FIBER_SHUFFLE);
  for (unsigned long i = 0; i < bytes; i++) ((unsigned char *)value)[i] = self->result[i];
}

static UNCHECKED void host_gather(const void *value, unsigned long bytes, void *all) {
  fiber *self = current;
  self->bytes = (unsigned)bytes;
  self->all = all;
  for (unsigned long i = 0; i < bytes; i++) self->value[i] = ((const unsigned char *)value)[i];
  fiber_yield(FIBER_GATHER);
}

static float host_f16_to_f32(unsigned short bits) { return (float)lw__f16_to_f64(bits); }
static unsigned short host_f32_to_f16(float x) { return lw__f64_to_f16((double)x); }
static unsigned short host_f32_to_bf16(float x) { return lw__f64_to_bf16((double)x); }
static void host_touch(const void *at, unsigned long bytes, int write) {
  memory_touch(at, bytes, write != 0);
}

const struct standin_host *simt_host(void) {
  host.dynamic = dynamic_memory;
  host.barrier = host_barrier;
  host.warp_barrier = host_warp_barrier;
  host.shuffle_xor = host_shuffle_xor;
  host.gather = host_gather;
  host.f16_to_f32 = host_f16_to_f32;
  host.f32_to_f16 = host_f32_to_f16;
  host.f32_to_bf16 = host_f32_to_bf16;
  host.touch = host_touch;
  return &host;
}

/* ---- meeting ---- */

/* Lets the shuffles of one warp happen whose lanes have all come. */
static bool meet_shuffles(unsigned first, unsigned count) {
  bool any = false;
  for (unsigned lane = 0; lane < count; lane++) {
    fiber *f = &fibers[first + lane];
    if (f->state != FIBER_SHUFFLE || (f->mask >> lane & 1) == 0) continue;
    bool complete = true;
    for (unsigned other = 0; other < count; other++) {
      const fiber *o = &fibers[first + other];
      if ((f->mask >> other & 1) == 0) continue;
      complete = complete && o->state == FIBER_SHUFFLE && o->mask == f->mask &&
                 o->apart == f->apart && o->bytes == f->bytes;
    }
    if (!complete) continue;
    for (unsigned other = 0; other < count; other++) {
      fiber *o = &fibers[first + other];
      if ((f->mask >> other & 1) == 0) continue;
      unsigned from = other ^ o->apart;
      bool there = from < count && (f->mask >> from & 1) != 0;
      memcpy(o->result, there ? fibers[first + from].value : o->value, sizeof o->result);
    }
    unsigned mask = f->mask;
    for (unsigned other = 0; other < count; other++) {
      if ((mask >> other & 1) != 0) fibers[first + other].state = FIBER_READY;
    }
    any = true;
  }
  return any;
}

static unsigned count_state(unsigned first, unsigned count, fiber_state state) {
  unsigned found = 0;
  for (unsigned t = first; t < first + count; t++) found += fibers[t].state == state;
  return found;
}

static void release(unsigned first, unsigned count) {
  for (unsigned t = first; t < first + count; t++) fibers[t].state = FIBER_READY;
}

/* Every lane of the warp gets the values of all. */
static void gather(unsigned first, unsigned count) {
  for (unsigned t = first; t < first + count; t++)
    for (unsigned lane = 0; lane < count; lane++)
      memcpy(fibers[t].all + (size_t)lane * fibers[t].bytes, fibers[first + lane].value,
             fibers[t].bytes);
  release(first, count);
}

/* True when somebody can go on. */
static bool meet(unsigned threads) {
  bool any = false;
  for (unsigned first = 0; first < threads; first += 32) {
    unsigned count = threads - first < 32 ? threads - first : 32;
    any = meet_shuffles(first, count) || any;
    if (count_state(first, count, FIBER_GATHER) == count) {
      gather(first, count);
      any = true;
    }
    if (count_state(first, count, FIBER_WARP) == count) {
      release(first, count);
      any = true;
    }
  }
  if (count_state(0, threads, FIBER_BARRIER) == threads) {
    release(0, threads);
    any = true;
  }
  return any;
}

static const char *run_block(const simt_launch *l) {
  for (unsigned t = 0; t < l->block; t++) fiber_start(t);
  for (;;) {
    for (unsigned i = 0; i < l->block; i++) {
      unsigned t = l->order % 2 == 0 ? i : l->block - 1 - i;
      if (fibers[t].state == FIBER_READY) fiber_resume(t);
    }
    if (count_state(0, l->block, FIBER_DONE) == l->block) return NULL;
    if (!meet(l->block)) return "threads wait for others that never come";
  }
}

const char *simt_run(const simt_launch *l) {
  if (l->block > THREADS_MAX || l->shared_bytes > DYNAMIC_BYTES) return "the block is too large";
  launch_now = l;
  host.block_dim = (struct standin_index){l->block, 1, 1};
  host.grid_dim = (struct standin_index){l->grid, 1, 1};
  host.block = host.thread = (struct standin_index){0, 0, 0};
  for (unsigned i = 0; i < l->grid; i++) {
    host.block.x = l->order % 2 == 0 ? i : l->grid - 1 - i;
    memset(dynamic_memory, 0xff, l->shared_bytes);
    if (l->meets) {
      const char *wrong = run_block(l);
      if (wrong != NULL) return wrong;
      continue;
    }
    for (unsigned t = 0; t < l->block; t++) {
      host.thread.x = l->order % 2 == 0 ? t : l->block - 1 - t;
      l->call(l->parameters);
    }
  }
  return NULL;
}
