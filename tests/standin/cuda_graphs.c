/* cuda_graphs.c: graphs and captures of the look-alike of the driver. */
#include <stdlib.h>
#include <string.h>

#include "standin/objects.h"

struct lw_cu_node_object {
  struct lw_cu_graph_object *graph;
  int index, dep_count;
  int deps[NODE_DEPS_MAX];
  op operation;
};
struct lw_cu_graph_object {
  int count;
  struct lw_cu_node_object *nodes[NODES_MAX];
};
struct lw_cu_exec_object {
  int count;
  struct lw_cu_graph_object *of;
  struct lw_cu_node_object nodes[];
};

/* ---- nodes ---- */

static bool good_launch(lw_cu_function f, const lw_cu_kernel_node *k) {
  return k->grid_x > 0 && k->grid_x <= INT32_MAX && k->grid_y == 1 && k->grid_z == 1 &&
         k->block_x > 0 && k->block_x <= (unsigned int)f->threads_max && k->block_y == 1 &&
         k->block_z == 1 && k->extra == NULL && k->kernel == NULL && k->context == NULL &&
         k->shared_bytes <= (unsigned int)f->shared_limit;
}

static int kernel_operation(const lw_cu_kernel_node *k, op *out) {
  if (!good_launch(k->function, k)) return INVALID_VALUE;
  *out = (op){.kind = OP_LAUNCH,
              .function = k->function,
              .grid = k->grid_x,
              .block = k->block_x,
              .shared_bytes = k->shared_bytes,
              .parameters = standin_parameters(k->function, k->parameters)};
  return 0;
}

static int copy_operation(const lw_cu_copy_node *c, op *out) {
  const struct lw_cu_copy_side *sides[] = {&c->from, &c->to};
  for (int i = 0; i < 2; i++) {
    const struct lw_cu_copy_side *s = sides[i];
    if (s->x_bytes != 0 || s->y != 0 || s->z != 0 || s->level != 0 ||
        s->memory != LW_CU_MEMORY_DEVICE || s->host != NULL || s->array != NULL ||
        s->reserved != NULL || s->pitch < c->width_bytes || s->pitch > INT32_MAX) {
      return INVALID_VALUE;
    }
    (void)standin_holds("copy node", s->device, c->width_bytes);
  }
  if (c->width_bytes == 0 || c->height != 1 || c->depth != 1) return INVALID_VALUE;
  *out = (op){.kind = OP_COPY,
              .to = standin_pointer(c->to.device),
              .from = standin_pointer(c->from.device),
              .bytes = c->width_bytes};
  return 0;
}

static int fill_operation(const lw_cu_fill_node *f, op *out) {
  if (f->elem_bytes != 1 || f->height != 1 || f->width == 0 || f->value > 255) return INVALID_VALUE;
  (void)standin_holds("fill node", f->to, f->width);
  *out = (op){.kind = OP_FILL,
              .to = standin_pointer(f->to),
              .bytes = f->width,
              .value = (unsigned char)f->value};
  return 0;
}

int cuGraphCreate(lw_cu_graph *graph, unsigned int flags) {
  CALL();
  NEEDS_CONTEXT();
  if (flags != 0) return INVALID_VALUE;
  *graph = standin_object(sizeof **graph);
  standin.live_graphs++;
  return 0;
}

static void destroy_graph(lw_cu_graph graph) {
  for (int i = 0; i < graph->count; i++) {
    free(graph->nodes[i]->operation.parameters);
    standin_free_object(graph->nodes[i]);
  }
  standin_free_object(graph);
}

int cuGraphDestroy(lw_cu_graph graph) {
  CLEANUP();
  destroy_graph(graph);
  standin.live_graphs--;
  CLEANED();
}

static int add_node(lw_cu_node *out, lw_cu_graph graph, const lw_cu_node *deps, size_t count,
                    op operation) {
  if (graph->count == NODES_MAX || count > NODE_DEPS_MAX) return 2;
  lw_cu_node node = standin_object(sizeof *node);
  *node = (struct lw_cu_node_object){
      .graph = graph, .index = graph->count, .dep_count = (int)count, .operation = operation};
  for (size_t i = 0; i < count; i++) {
    if (deps[i]->graph != graph) standin_violation("an edge from another graph");
    node->deps[i] = deps[i]->index;
  }
  graph->nodes[graph->count++] = node;
  *out = node;
  return 0;
}

int cuGraphAddKernelNode_v2(lw_cu_node *node, lw_cu_graph graph, const lw_cu_node *deps,
                            size_t dep_count, const lw_cu_kernel_node *kernel) {
  CALL();
  NEEDS_CONTEXT();
  op operation;
  int result = kernel_operation(kernel, &operation);
  return result != 0 ? result : add_node(node, graph, deps, dep_count, operation);
}

int cuGraphAddMemcpyNode(lw_cu_node *node, lw_cu_graph graph, const lw_cu_node *deps,
                         size_t dep_count, const lw_cu_copy_node *copy, lw_cu_context context) {
  CALL();
  NEEDS_CONTEXT();
  op operation;
  int result = context != &the_context ? INVALID_CONTEXT : copy_operation(copy, &operation);
  return result != 0 ? result : add_node(node, graph, deps, dep_count, operation);
}

int cuGraphAddMemsetNode(lw_cu_node *node, lw_cu_graph graph, const lw_cu_node *deps,
                         size_t dep_count, const lw_cu_fill_node *fill, lw_cu_context context) {
  CALL();
  NEEDS_CONTEXT();
  op operation;
  int result = context != &the_context ? INVALID_CONTEXT : fill_operation(fill, &operation);
  return result != 0 ? result : add_node(node, graph, deps, dep_count, operation);
}

/* Early edges order the look-alike's nodes like ordinary ones: a node does not begin before it may
 * finish. */
int cuGraphAddDependencies_v2(lw_cu_graph graph, const lw_cu_node *from, const lw_cu_node *to,
                              const lw_cu_edge *edges, size_t count) {
  CALL();
  NEEDS_CONTEXT();
  for (size_t i = 0; i < count; i++) {
    lw_cu_node node = to[i];
    bool good = edges != NULL && edges[i].type == LW_CU_EDGE_PROGRAMMATIC &&
                edges[i].to_port == 0 && edges[i].from_port == LW_CU_PORT_PROGRAMMATIC &&
                from[i]->operation.kind == OP_LAUNCH && node->operation.kind == OP_LAUNCH &&
                from[i]->graph == graph && node->graph == graph && node->dep_count < NODE_DEPS_MAX;
    if (!good) return INVALID_VALUE;
    node->deps[node->dep_count++] = from[i]->index;
    standin.early_edges++;
  }
  return 0;
}

int cuGraphKernelNodeSetAttribute(lw_cu_node node, int attribute, const lw_cu_node_value *value) {
  CALL();
  NEEDS_CONTEXT();
  bool good = attribute == LW_CU_NODE_PRIORITY && node->operation.kind == OP_LAUNCH &&
              value->priority <= 0 && value->priority >= -5;
  if (!good) return INVALID_VALUE;
  standin.priorities++;
  return 0;
}

int cuGraphInstantiateWithFlags(lw_cu_exec *exec, lw_cu_graph graph, unsigned long long flags) {
  CALL();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  if ((flags & ~(unsigned long long)LW_CU_GRAPH_NODE_PRIORITY) != 0) return INVALID_VALUE;
  lw_cu_exec e = standin_object(sizeof *e + (size_t)graph->count * sizeof e->nodes[0]);
  e->count = graph->count;
  e->of = graph;
  for (int i = 0; i < graph->count; i++) {
    e->nodes[i] = *graph->nodes[i];
    op *o = &e->nodes[i].operation;
    if (o->kind != OP_LAUNCH) continue;
    size_t bytes = ((size_t)o->function->parameters + 1) * sizeof *o->parameters;
    o->parameters = memcpy(malloc(bytes), o->parameters, bytes);
  }
  standin.live_graphs++;
  *exec = e;
  return 0;
}

int cuGraphExecDestroy(lw_cu_exec exec) {
  CLEANUP();
  for (int i = 0; i < exec->count; i++) free(exec->nodes[i].operation.parameters);
  standin_free_object(exec);
  standin.live_graphs--;
  CLEANED();
}

static int edit_node(lw_cu_exec exec, lw_cu_node node, op operation) {
  op *had = &exec->nodes[node->index].operation;
  bool same =
      node->graph == exec->of && had->kind == operation.kind && had->function == operation.function;
  if (!same) standin_violation("edited a node into another kind of node");
  free(had->parameters);
  *had = operation;
  standin.graph_edits++;
  return 0;
}

int cuGraphExecKernelNodeSetParams_v2(lw_cu_exec exec, lw_cu_node node,
                                      const lw_cu_kernel_node *kernel) {
  CALL();
  NEEDS_CONTEXT();
  op operation;
  int result = kernel_operation(kernel, &operation);
  return result != 0 ? result : edit_node(exec, node, operation);
}

int cuGraphExecMemcpyNodeSetParams(lw_cu_exec exec, lw_cu_node node, const lw_cu_copy_node *copy,
                                   lw_cu_context context) {
  CALL();
  NEEDS_CONTEXT();
  op operation;
  int result = context != &the_context ? INVALID_CONTEXT : copy_operation(copy, &operation);
  return result != 0 ? result : edit_node(exec, node, operation);
}

int cuGraphExecMemsetNodeSetParams(lw_cu_exec exec, lw_cu_node node, const lw_cu_fill_node *fill,
                                   lw_cu_context context) {
  CALL();
  NEEDS_CONTEXT();
  op operation;
  int result = context != &the_context ? INVALID_CONTEXT : fill_operation(fill, &operation);
  return result != 0 ? result : edit_node(exec, node, operation);
}

static op copy_of(const op *operation) {
  op copy = *operation;
  if (copy.kind == OP_LAUNCH) {
    size_t bytes = ((size_t)copy.function->parameters + 1) * sizeof *copy.parameters;
    copy.parameters = memcpy(malloc(bytes), operation->parameters, bytes);
    standin.launches++;
  }
  standin.copies += copy.kind == OP_COPY;
  standin.fills += copy.kind == OP_FILL;
  return copy;
}

static int capture_exec(struct lw_cu_stream_object *s, lw_cu_exec exec);

int cuGraphLaunch(lw_cu_exec exec, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT();
  struct lw_cu_stream_object *s = standin_stream(stream);
  if (s == NULL) return INVALID_HANDLE;
  standin.graph_launches++;
  if (s->capture != NULL) return capture_exec(s, exec);
  work_node *nodes = calloc((size_t)exec->count + 1, sizeof *nodes);
  for (int i = 0; i < exec->count; i++) {
    nodes[i] = (work_node){.operation = copy_of(&exec->nodes[i].operation),
                           .deps = exec->nodes[i].deps,
                           .dep_count = exec->nodes[i].dep_count};
  }
  work_put_graph(&s->place, nodes, exec->count);
  free(nodes);
  return 0;
}

/* ---- captures ---- */

enum { MODE_GLOBAL, MODE_THREAD, MODE_RELAXED };

static capture *captures;
static _Thread_local int thread_mode;

int standin_unsafe(const char *call) {
  int result = 0;
  for (capture *c = captures; c != NULL && thread_mode != MODE_RELAXED; c = c->next) {
    if (c->mode == MODE_RELAXED) continue;
    if (c->mode == MODE_THREAD && c->thread != &thread_mode) continue;
    if (thread_mode == MODE_THREAD && c->thread != &thread_mode) continue;
    standin_violation("%s during a capture", call);
    c->invalid = true;
    result = CAPTURE_UNSUPPORTED;
  }
  return result;
}

int cuThreadExchangeStreamCaptureMode(lw_cu_capture_mode *mode) {
  CLEANUP();
  if (*mode < MODE_GLOBAL || *mode > MODE_RELAXED) return INVALID_VALUE;
  if (fails && *mode == MODE_RELAXED) return standin.fail_code;
  int had = thread_mode;
  thread_mode = *mode;
  *mode = had;
  CLEANED();
}

int cuStreamIsCapturing(lw_cu_stream stream, lw_cu_capture *status) {
  CALL();
  NEEDS_CONTEXT();
  const struct lw_cu_stream_object *s = standin_stream(stream);
  if (s == NULL) return INVALID_HANDLE;
  *status = s->capture == NULL ? 0 : s->capture->invalid ? 2 : 1;
  return 0;
}

int cuStreamBeginCapture_v2(lw_cu_stream stream, int mode) {
  CALL();
  NEEDS_CONTEXT();
  struct lw_cu_stream_object *s = standin_stream(stream);
  if (s == NULL) return INVALID_HANDLE;
  if (stream == NULL || s->capture != NULL) return CAPTURE_UNSUPPORTED;
  capture *c = malloc(sizeof *c);
  *c = (capture){.next = captures,
                 .graph = standin_object(sizeof *c->graph),
                 .origin = stream,
                 .mode = mode,
                 .thread = &thread_mode};
  captures = c;
  s->capture = c;
  s->tail_count = 0;
  standin.live_captures++;
  return 0;
}

/* Every node must come before what the origin's stream ends with. */
static bool all_joined(const capture *c) {
  bool reached[NODES_MAX] = {false};
  for (int i = 0; i < c->origin->tail_count; i++) reached[c->origin->tails[i]] = true;
  for (int i = c->graph->count - 1; i >= 0; i--) {
    if (!reached[i]) return false;
    const struct lw_cu_node_object *node = c->graph->nodes[i];
    for (int d = 0; d < node->dep_count; d++) reached[node->deps[d]] = true;
  }
  return true;
}

static void forget_capture(capture *c) {
  for (capture **at = &captures; *at != NULL; at = &(*at)->next) {
    if (*at != c) continue;
    *at = c->next;
    break;
  }
  standin_leave_capture(c);
  standin.live_captures--;
  free(c);
}

int cuStreamEndCapture(lw_cu_stream stream, lw_cu_graph *graph) {
  CALL();
  NEEDS_CONTEXT();
  struct lw_cu_stream_object *s = standin_stream(stream);
  *graph = NULL;
  if (s == NULL || s->capture == NULL) return INVALID_VALUE;
  capture *c = s->capture;
  if (c->origin != stream) return CAPTURE_UNMATCHED;
  int result = c->invalid ? CAPTURE_INVALIDATED : all_joined(c) ? 0 : CAPTURE_UNJOINED;
  if (result == 0) {
    *graph = c->graph;
    standin.live_graphs++;
  } else {
    destroy_graph(c->graph);
  }
  forget_capture(c);
  return result;
}

int standin_capture_op(struct lw_cu_stream_object *s, op operation) {
  lw_cu_node deps[NODE_DEPS_MAX], node;
  for (int i = 0; i < s->tail_count; i++) deps[i] = s->capture->graph->nodes[s->tails[i]];
  int result = s->capture->invalid
                   ? CAPTURE_INVALIDATED
                   : add_node(&node, s->capture->graph, deps, (size_t)s->tail_count, operation);
  if (result != 0) {
    free(operation.parameters);
    return result;
  }
  s->tails[0] = node->index;
  s->tail_count = 1;
  return 0;
}

/* The nodes of an executable graph as nodes of the capture's. */
static int capture_exec(struct lw_cu_stream_object *s, lw_cu_exec exec) {
  lw_cu_graph graph = s->capture->graph;
  lw_cu_node before[NODE_DEPS_MAX], *made = calloc((size_t)exec->count + 1, sizeof(lw_cu_node));
  bool *ends = calloc((size_t)exec->count + 1, sizeof *ends);
  for (int i = 0; i < s->tail_count; i++) before[i] = graph->nodes[s->tails[i]];
  int result = s->capture->invalid ? CAPTURE_INVALIDATED : 0;
  for (int i = 0; i < exec->count && result == 0; i++) {
    const struct lw_cu_node_object *node = &exec->nodes[i];
    lw_cu_node deps[NODE_DEPS_MAX];
    for (int d = 0; d < node->dep_count; d++) {
      deps[d] = made[node->deps[d]];
      ends[node->deps[d]] = false;
    }
    bool first = node->dep_count == 0;
    result = add_node(&made[i], graph, first ? before : deps,
                      (size_t)(first ? s->tail_count : node->dep_count), copy_of(&node->operation));
    ends[i] = true;
  }
  s->tail_count = 0;
  for (int i = 0; i < exec->count && result == 0; i++) {
    if (!ends[i]) continue;
    if (s->tail_count == NODE_DEPS_MAX) result = INVALID_VALUE;
    if (result == 0) s->tails[s->tail_count++] = made[i]->index;
  }
  free(made);
  free(ends);
  return result;
}

/* A stream that waits for an event of a capture becomes part of it. */
int standin_wait_event(struct lw_cu_stream_object *s, const struct lw_cu_event_object *event) {
  if (event->capture == NULL && s->capture == NULL) {
    work_wait(&s->place, &event->place);
    return 0;
  }
  if (event->capture == NULL || (s->capture != NULL && s->capture != event->capture)) {
    standin_violation("a capture waits for an event from outside");
    if (s->capture != NULL) s->capture->invalid = true;
    return 905; /* CUDA_ERROR_STREAM_CAPTURE_ISOLATION */
  }
  s->capture = event->capture;
  for (int i = 0; i < event->tail_count; i++) {
    bool known = false;
    for (int k = 0; k < s->tail_count; k++) known |= s->tails[k] == event->tails[i];
    if (known) continue;
    if (s->tail_count == NODE_DEPS_MAX) return INVALID_VALUE;
    s->tails[s->tail_count++] = event->tails[i];
  }
  return 0;
}
