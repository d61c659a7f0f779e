/* match.c: reads the rules' text and matches it against the graph. The texts are short, so they are
 * read again for each node whose function is the one that the text starts with: no tables to build,
 * none to keep. */
#include "compiler/pass/match.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MATCH_VARIABLES = 8, MATCH_NODES = 40, MATCH_DEPTH = 16 };

typedef enum term_kind { TERM_FN, TERM_VARIABLE, TERM_NUMBER, TERM_COMPOSITE } term_kind;

typedef struct term {
  term_kind kind;
  lw_fn fn;         /* FN */
  bool approximate; /* NUMBER */
  bool tanh_form;   /* COMPOSITE */
  int variable;     /* VARIABLE */
  double number;    /* NUMBER */
  int arg[3];
  int arg_count;
} term;

typedef struct term_text {
  term node[MATCH_NODES];
  int count;
  const char *at;
  bool bad;
} term_text;

/* ---- reading --------------------------------------------------------------------------------*/

static void skip_spaces(term_text *t) {
  while (*t->at == ' ') t->at++;
}

static bool take(term_text *t, char c) {
  skip_spaces(t);
  if (*t->at != c) return false;
  t->at++;
  return true;
}

/* Length of the name of a function at |at|: letters and digits before an opening bracket. */
static size_t word_length(const char *at) {
  size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
  return at[n] == '(' ? n : 0;
}

static bool fn_of_word(lw_str word, lw_fn *out) {
  for (int fn = 0; fn < LW_FN_COUNT; fn++) {
    if (lw__str_is(word, lw__fn_info[fn].name)) {
      *out = (lw_fn)fn;
      return true;
    }
  }
  return false;
}

static int read_term(term_text *t, int depth);

static void read_arguments(term_text *t, int index, int depth) {
  if (!take(t, '(')) t->bad = true;
  while (!t->bad) {
    term *node = &t->node[index];
    if (node->arg_count == 3) {
      t->bad = true;
      return;
    }
    int arg = read_term(t, depth + 1);
    node->arg[node->arg_count++] = arg;
    if (take(t, ')')) return;
    if (!take(t, ',')) t->bad = true;
  }
}

static void read_call(term_text *t, int index, int depth) {
  term *node = &t->node[index];
  node->kind = take(t, '@') ? TERM_COMPOSITE : TERM_FN;
  lw_str word = lw__str(t->at, word_length(t->at));
  t->at += word.len;
  if (node->kind == TERM_COMPOSITE) {
    node->tanh_form = lw__str_is(word, "gelu_tanh");
    if (!node->tanh_form && !lw__str_is(word, "gelu")) t->bad = true;
  } else if (!fn_of_word(word, &node->fn)) {
    t->bad = true;
  }
  read_arguments(t, index, depth);
  bool arity_ok = node->kind == TERM_COMPOSITE ? node->arg_count == 1
                                               : node->arg_count == lw__fn_info[node->fn].arity;
  if (!arity_ok) t->bad = true;
}

/* "inf" and numbers with a point; independent of the locale: digits are read by hand. */
static double read_number(term_text *t) {
  double sign = 1, value = 0, scale = 1;
  if (*t->at == '-') {
    sign = -1;
    t->at++;
  }
  if (strncmp(t->at, "inf", 3) == 0) {
    t->at += 3;
    return sign * INFINITY;
  }
  if (*t->at < '0' || *t->at > '9') t->bad = true;
  bool point = false;
  for (; (*t->at >= '0' && *t->at <= '9') || (*t->at == '.' && !point); t->at++) {
    if (*t->at == '.') {
      point = true;
    } else {
      value = value * 10 + (*t->at - '0');
      if (point) scale *= 10;
    }
  }
  return sign * (value / scale);
}

static int read_term(term_text *t, int depth) {
  skip_spaces(t);
  if (t->count == MATCH_NODES || depth > MATCH_DEPTH) {
    t->bad = true;
    return 0;
  }
  int index = t->count++;
  term *node = &t->node[index];
  *node = (term){0};
  bool is_number = *t->at == '~' || *t->at == '-' || (*t->at >= '0' && *t->at <= '9') ||
                   strncmp(t->at, "inf", 3) == 0;
  if (*t->at == '@' || word_length(t->at) > 0) {
    read_call(t, index, depth);
  } else if (is_number) {
    node->kind = TERM_NUMBER;
    node->approximate = take(t, '~');
    node->number = read_number(t);
  } else if (*t->at >= 'a' && *t->at < 'a' + MATCH_VARIABLES) {
    node->kind = TERM_VARIABLE;
    node->variable = *t->at++ - 'a';
  } else {
    t->bad = true;
  }
  return index;
}

static bool read_text(const char *text, term_text *out) {
  *out = (term_text){.at = text};
  read_term(out, 0);
  skip_spaces(out);
  return !out->bad && *out->at == '\0';
}

/* ---- matching -------------------------------------------------------------------------------*/

typedef struct binding {
  lw_value_id value[MATCH_VARIABLES];
} binding;

static bool number_matches(const lw_graph *g, const term *p, lw_value_id v) {
  double x;
  if (!lw__splat_number(g, v, &x)) return false;
  if (p->approximate) {
    double u = lw__dtype_unit_roundoff(lw__value(g, v)->dtype);
    return fabs(x - p->number) <= 4 * u * fabs(p->number);
  }
  return x == p->number && signbit(x) == signbit(p->number);
}

/* What is still to be matched: terms against values. */
typedef struct goal_list {
  int term[MATCH_NODES];
  lw_value_id value[MATCH_NODES];
  int count;
} goal_list;

static void push_arguments(const lw_graph *g, const term *p, const lw_node *node, bool swapped,
                           goal_list *goals) {
  for (int k = p->arg_count - 1; k >= 0; k--) {
    goals->term[goals->count] = p->arg[k];
    goals->value[goals->count++] = lw__operand(g, node, (uint32_t)(swapped ? 1 - k : k));
  }
}

/* Goals one after the other; at a commutative function both orders, each with all that is left. */
static bool goals_match(const lw_graph *g, const term_text *t, goal_list goals, binding *b) {
  while (goals.count > 0) {
    goals.count--;
    const term *p = &t->node[goals.term[goals.count]];
    lw_value_id v = goals.value[goals.count];
    const lw_node *node = lw__producer(g, v);
    switch (p->kind) {
      case TERM_NUMBER:
        if (!number_matches(g, p, v)) return false;
        break;
      case TERM_VARIABLE:
        if (b->value[p->variable] == LW_NONE) b->value[p->variable] = v;
        if (b->value[p->variable] != v) return false;
        break;
      case TERM_FN:
        if (node->op != LW_OP_MAP || node->attr.fn != p->fn) return false;
        if (lw__is_commutative(p->fn)) {
          goal_list other = goals;
          binding before = *b;
          push_arguments(g, p, node, true, &other);
          if (goals_match(g, t, other, b)) return true;
          *b = before;
        }
        push_arguments(g, p, node, false, &goals);
        break;
      case TERM_COMPOSITE: return false;
    }
  }
  return true;
}

static bool term_matches(const lw_graph *g, const term_text *t, lw_value_id v, binding *b) {
  goal_list goals = {.count = 1};
  goals.term[0] = 0;
  goals.value[0] = v;
  return goals_match(g, t, goals, b);
}

static bool guard_holds(const lw_graph *g, lw_guard_kind when, lw_dtype dtype, const binding *b) {
  switch (when) {
    case LW_WHEN_FLOAT: return lw__dtype_is_float(dtype);
    case LW_WHEN_INT: return lw__dtype_is_int(dtype);
    case LW_WHEN_NARROW: return dtype == LW_DTYPE_F16 || dtype == LW_DTYPE_BF16;
    case LW_WHEN_NONNEGATIVE:
      return lw__dtype_is_float(dtype) && lw__is_nonnegative(g, b->value[0]);
    case LW_WHEN_ANY: break;
  }
  return true;
}

/* ---- building -------------------------------------------------------------------------------*/

static lw_status build_term(lw_graph *g, const term_text *t, int index, const binding *b,
                            lw_value_id like, lw_value_id *out) {
  const term *p = &t->node[index];
  lw_value_id in[3] = {LW_NONE, LW_NONE, LW_NONE};
  for (int k = 0; k < p->arg_count; k++) LW_TRY(build_term(g, t, p->arg[k], b, like, &in[k]));
  switch (p->kind) {
    case TERM_VARIABLE: *out = b->value[p->variable]; return LW_OK;
    case TERM_NUMBER: return lw__splat_like(g, like, p->number, out);
    case TERM_COMPOSITE: return lw__graph_gelu(g, in[0], p->tanh_form, out);
    case TERM_FN: break;
  }
  return lw__graph_map(g, p->fn, in, out);
}

/* ---- sets of rules ---------------------------------------------------------------------------*/

typedef struct read_rule {
  lw_guard_kind when;
  lw_fn fn; /* of the pattern's first term */
  term_text pattern, replacement;
} read_rule;

struct lw_rule_set {
  uint32_t count;
  read_rule *rule;
};

lw_status lw__rules_read(const lw_rule *rules, uint32_t count, lw_arena *arena, lw_diag *diag,
                         lw_rule_set **out) {
  LW_TRY(lw__arena_alloc(arena, 1, sizeof **out, out));
  LW_TRY(lw__arena_alloc(arena, count, sizeof *(*out)->rule, &(*out)->rule));
  for (uint32_t r = 0; r < count; r++) {
    read_rule *read = &(*out)->rule[(*out)->count++];
    bool ok = read_text(rules[r].pattern, &read->pattern) &&
              read_text(rules[r].replacement, &read->replacement);
    if (!ok || read->pattern.node[0].kind != TERM_FN) {
      return lw__fail(diag, LW_STATUS_INTERNAL, "", "malformed rule '%s' -> '%s'", rules[r].pattern,
                      rules[r].replacement);
    }
    read->when = rules[r].when;
    read->fn = read->pattern.node[0].fn;
  }
  return LW_OK;
}

static lw_status apply_rule(lw_graph *g, const read_rule *rule, lw_value_id result,
                            lw_value_id *out) {
  binding b;
  memset(&b, 0xff, sizeof b);
  if (!term_matches(g, &rule->pattern, result, &b)) return LW_OK;
  if (!guard_holds(g, rule->when, lw__value(g, result)->dtype, &b)) return LW_OK;
  return build_term(g, &rule->replacement, 0, &b, result, out);
}

lw_status lw__rules_apply(lw_rewriter *rw, const lw_rule_set *set, lw_node_id n, lw_value_id *out) {
  lw_node node = *lw__node(rw->graph, n);
  if (node.op != LW_OP_MAP || node.attr.fn == LW_FN_CAST) return LW_OK;
  for (uint32_t r = 0; r < set->count && *out == node.result; r++) {
    if (set->rule[r].fn == node.attr.fn) {
      LW_TRY(apply_rule(rw->graph, &set->rule[r], node.result, out));
    }
  }
  return LW_OK;
}

lw_status lw__rewrite_with_rules(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                                 lw_rewrite_rule rule, const lw_rule *rules, uint32_t count,
                                 bool *out_changed) {
  lw_arena arena = {0};
  lw_rule_set *set = NULL;
  lw_status status = lw__rules_read(rules, count, &arena, diag, &set);
  if (status == LW_OK) status = lw__rewrite(graph, options, diag, rule, set, out_changed);
  lw__arena_deinit(&arena);
  return status;
}
