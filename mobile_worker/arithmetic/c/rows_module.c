/* mobile_worker.arithmetic.native._rows: the operations of rows.h for Python.
 *
 * Every function takes the number of an instruction set first (see cpu.h; `sets()` lists
 * those that run here), then arrays by the buffer protocol. Shapes, types and contiguity
 * are checked here, all of them, before a pointer is used: a wrong array is a Python
 * error. The GIL is released while much arithmetic runs, in the specification's float
 * mode. CPython's stable ABI from 3.11 on.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "cpu.h"
#include "rows.h"
#include "rows_arguments.h"

/* Floats of scores: rows go together up to the one, heads of one row up to the other. */
enum { SCRATCH_FLOATS = 1 << 18, MOST_FLOATS = 1 << 21 };

static const struct rows_operations *const sets[CPU_N_SETS] = {
    [CPU_PORTABLE] = &rows_portable,
#ifdef CPU_BUILDS_NEON
    [CPU_NEON] = &rows_neon,
#endif
#ifdef CPU_BUILDS_X86
    [CPU_AVX2] = &rows_avx2,
    [CPU_AVX512] = &rows_avx512,
#endif
};

/* The operations of the set in args[0]; NULL and an error set for wrong arguments. */
static const struct rows_operations *begin(PyObject *const *args, Py_ssize_t n,
                                           Py_ssize_t n_needed)
{
    size_t set;
    if (n != n_needed) {
        PyErr_Format(PyExc_TypeError, "%zd arguments where %zd are needed", n, n_needed);
        return NULL;
    }
    if (!sized(args[0], &set))
        return NULL;
    if (set >= CPU_N_SETS || !sets[set] || !cpu_has((enum cpu_set)set)) {
        PyErr_Format(PyExc_ValueError, "this CPU has no instruction set %zu", set);
        return NULL;
    }
    return sets[set];
}

/* rms_norm(set, x [..., n], weight [..., n], eps, out like x) */
static PyObject *py_rms_norm(PyObject *self, Arguments args, Py_ssize_t n_args)
{
    (void)self;
    struct arrays arrays = {.n = 0};
    struct rms_norm s = {0};
    const Py_buffer *x, *weight, *out;
    const struct rows_operations *set = begin(args, n_args, 5);
    if (!set || !(x = take(&arrays, args[1], "f", 0, 0)) ||
        !(weight = take(&arrays, args[2], "f", 0, 0)) || !real(args[3], &s.eps) ||
        !(out = take(&arrays, args[4], "f", 0, 1)))
        return release(&arrays, 0);
    s.n = extent(x, x->ndim - 1);
    if (!s.n || !weight->len || extent(weight, weight->ndim - 1) != s.n ||
        out->len != x->len)
        return release(&arrays, refuse("rows, weights and result of a norm"));
    s.x = x->buf, s.weight = weight->buf, s.out = out->buf;
    s.n_rows = (size_t)x->len / sizeof(float) / s.n;
    s.n_weights = (size_t)weight->len / sizeof(float) / s.n;
    RUN(set->rms_norm, &s, s.n_rows * s.n);
    return release(&arrays, 1);
}

/* turn(set, heads [n, n_heads, head_dim], cos [n, half], sin [n, half], interleaved) */
static PyObject *py_turn(PyObject *self, Arguments args, Py_ssize_t n_args)
{
    (void)self;
    struct arrays arrays = {.n = 0};
    struct turn s = {0};
    const Py_buffer *heads, *cosines, *sines;
    const struct rows_operations *set = begin(args, n_args, 5);
    if (!set || !(heads = take(&arrays, args[1], "f", 3, 1)) ||
        !(cosines = take(&arrays, args[2], "f", 2, 0)) ||
        !(sines = take(&arrays, args[3], "f", 2, 0)) ||
        (s.interleaved = PyObject_IsTrue(args[4])) < 0)
        return release(&arrays, 0);
    s.n = extent(heads, 0), s.n_heads = extent(heads, 1), s.head_dim = extent(heads, 2);
    s.half = extent(cosines, 1);
    if (extent(cosines, 0) != s.n || extent(sines, 0) != s.n ||
        extent(sines, 1) != s.half || s.half > s.head_dim / 2)
        return release(&arrays, refuse("heads and tables of a turn"));
    s.heads = heads->buf, s.cos = cosines->buf, s.sin = sines->buf;
    RUN(set->turn, &s, s.n * s.n_heads * s.head_dim);
    return release(&arrays, 1);
}

/* dot_scores(set, queries [n, n_kv, group, head_dim], keys [n_kv, head_dim, >= n_keys],
              out [n, n_kv, group, n_keys]) */
static PyObject *py_dot_scores(PyObject *self, Arguments args, Py_ssize_t n_args)
{
    (void)self;
    struct arrays arrays = {.n = 0};
    struct dot_scores s = {0};
    const Py_buffer *queries, *keys, *out;
    const struct rows_operations *set = begin(args, n_args, 4);
    if (!set || !(queries = take(&arrays, args[1], "f", 4, 0)) ||
        !(keys = take(&arrays, args[2], "f", 3, 0)) ||
        !(out = take(&arrays, args[3], "f", 4, 1)))
        return release(&arrays, 0);
    s.n = extent(queries, 0), s.n_kv = extent(queries, 1), s.group = extent(queries, 2);
    s.head_dim = extent(queries, 3);
    s.stride = extent(keys, 2), s.n_keys = extent(out, 3);
    if (s.head_dim % LANES || extent(keys, 0) != s.n_kv || extent(keys, 1) != s.head_dim ||
        s.n_keys > s.stride || extent(out, 0) != s.n || extent(out, 1) != s.n_kv ||
        extent(out, 2) != s.group)
        return release(&arrays, refuse("queries, keys and scores"));
    s.queries = queries->buf, s.keys = keys->buf, s.out = out->buf;
    RUN(set->dot_scores, &s, (double)s.n * s.n_kv * s.group * s.head_dim * s.n_keys);
    return release(&arrays, 1);
}

static int rule_fits(const struct attention *s, const Py_buffer *sinks)
{
    if (sinks && (extent(sinks, 0) != s->n_kv || extent(sinks, 1) != s->group))
        return refuse("queries and sinks");
    if (!(s->soft_cap >= 0.0f)) {
        PyErr_SetString(PyExc_ValueError, "a soft cap below 0");
        return 0;
    }
    return 1;
}

static int attention_fits(const struct attention *s, const Py_buffer *keys,
                          const Py_buffer *values, const Py_buffer *seen,
                          const Py_buffer *out)
{
    const size_t capacity = extent(values, 0) < s->stride ? extent(values, 0) : s->stride;
    if (s->head_dim % LANES || extent(keys, 0) != s->n_kv ||
        extent(keys, 1) != s->head_dim || extent(values, 1) != s->n_kv)
        return refuse("queries, keys and values");
    if (s->first > capacity || s->n > capacity - s->first)
        return refuse("rows beyond the keys and values");
    if (out && (extent(out, 0) != s->n || extent(out, 1) != s->n_kv ||
                extent(out, 2) != s->group || extent(out, 3) != s->value_dim))
        return refuse("queries and result");
    if (seen && (extent(seen, 0) != s->n || extent(seen, 1) != s->n_kv ||
                 extent(seen, 2) != s->first + s->n))
        return refuse("queries and what they see");
    if (s->row_begin > s->row_end || s->row_end > s->n || s->head_begin > s->head_end ||
        s->head_end > s->n_kv * s->group)
        return refuse("a part beyond the rows or heads");
    return 1;
}

/* Room for the scores of as many rows as go at once, of one row for as many heads; NULL,
   error set. */
static float *attention_scratch(struct attention *s)
{
    const size_t n_rows = s->row_end - s->row_begin, n_heads = s->head_end - s->head_begin;
    s->room = most(attention_room(s), 1);
    s->heads_at_once = most(least(least(s->group, n_heads), MOST_FLOATS / s->room), 1);
    const size_t per_row = s->heads_at_once * s->room;
    s->rows_at_once = most(least(n_rows, SCRATCH_FLOATS / per_row), 1);
    if (per_row > SIZE_MAX / sizeof(float) / s->rows_at_once)
        return (float *)PyErr_NoMemory();
    float *scratch = PyMem_Malloc(s->rows_at_once * per_row * sizeof(float));
    return scratch ? scratch : (float *)PyErr_NoMemory();
}

static double attention_work(const struct attention *s)
{
    const double rows = (double)(s->row_end - s->row_begin);
    const size_t n_seen = s->first + s->n;
    const size_t n = s->window && s->window < n_seen ? s->window : n_seen;
    return rows * (s->head_end - s->head_begin) * n * (s->head_dim + s->value_dim);
}

/* attend(set, queries [n, n_kv, group, head_dim], keys [n_kv, head_dim, >= first + n],
          values [>= first + n, n_kv, value_dim], first,
          seen bool [n, n_kv, first + n] or None, scale, window or 0, soft_cap or 0,
          sinks [n_kv, group] or None, out [n, n_kv, group, value_dim],
          row_begin, row_end, head_begin, head_end); heads are n_kv * group, and only
   that part of the result is written */
static PyObject *py_attend(PyObject *self, Arguments args, Py_ssize_t n_args)
{
    (void)self;
    struct arrays arrays = {.n = 0};
    struct attention s = {0};
    const Py_buffer *queries, *keys, *values, *out, *seen = NULL, *sinks = NULL;
    const struct rows_operations *set = begin(args, n_args, 15);
    if (!set || !(queries = take(&arrays, args[1], "f", 4, 0)) ||
        !(keys = take(&arrays, args[2], "f", 3, 0)) ||
        !(values = take(&arrays, args[3], "f", 3, 0)) || !sized(args[4], &s.first) ||
        (args[5] != Py_None && !(seen = take(&arrays, args[5], "?", 3, 0))) ||
        !real(args[6], &s.scale) || !sized(args[7], &s.window) ||
        !real(args[8], &s.soft_cap) ||
        (args[9] != Py_None && !(sinks = take(&arrays, args[9], "f", 2, 0))) ||
        !(out = take(&arrays, args[10], "f", 4, 1)) || !sized(args[11], &s.row_begin) ||
        !sized(args[12], &s.row_end) || !sized(args[13], &s.head_begin) ||
        !sized(args[14], &s.head_end))
        return release(&arrays, 0);
    s.n = extent(queries, 0), s.n_kv = extent(queries, 1), s.group = extent(queries, 2);
    s.head_dim = extent(queries, 3);
    s.stride = extent(keys, 2), s.value_dim = extent(values, 2);
    if (!attention_fits(&s, keys, values, seen, out) || !rule_fits(&s, sinks))
        return release(&arrays, 0);
    s.queries = queries->buf, s.keys = keys->buf, s.values = values->buf;
    s.seen = seen ? seen->buf : NULL, s.sinks = sinks ? sinks->buf : NULL;
    s.out = out->buf;
    if (!(s.scratch = attention_scratch(&s)))
        return release(&arrays, 0);
    RUN(set->attend, &s, attention_work(&s));
    PyMem_Free(s.scratch);
    return release(&arrays, 1);
}

#include "rows_runs.h"

/* lane_product(set, weight [n_rows, n_cols], x [n, n_cols], out [n, n_rows]) */
static PyObject *py_lane_product(PyObject *self, Arguments args, Py_ssize_t n_args)
{
    (void)self;
    struct arrays arrays = {.n = 0};
    struct lane_product s = {0};
    const Py_buffer *weight, *x, *out;
    const struct rows_operations *set = begin(args, n_args, 4);
    if (!set || !(weight = take(&arrays, args[1], "f", 2, 0)) ||
        !(x = take(&arrays, args[2], "f", 2, 0)) ||
        !(out = take(&arrays, args[3], "f", 2, 1)))
        return release(&arrays, 0);
    s.n = extent(x, 0), s.n_rows = extent(weight, 0), s.n_cols = extent(weight, 1);
    if (s.n_cols % LANES || extent(x, 1) != s.n_cols || extent(out, 0) != s.n ||
        extent(out, 1) != s.n_rows)
        return release(&arrays, refuse("rows and weights of a product"));
    s.weight = weight->buf, s.x = x->buf, s.out = out->buf;
    RUN(set->lane_product, &s, (double)s.n * s.n_rows * s.n_cols);
    return release(&arrays, 1);
}

static int choice_fits(const struct choice *s, const Py_buffer *bias,
                       const Py_buffer *experts, const Py_buffer *weights)
{
    if (!s->top_k || s->top_k > s->n_expert || (bias && extent(bias, 0) != s->n_expert))
        return refuse("logits, bias and top-k");
    if (!s->n_groups || s->n_expert % s->n_groups || !s->n_groups_used ||
        s->n_groups_used > s->n_groups)
        return refuse("experts and groups");
    if (extent(experts, 0) != s->n || extent(weights, 0) != s->n ||
        extent(weights, 1) != s->top_k)
        return refuse("logits, experts and weights");
    return 1;
}

/* choose(set, logits [n, n_expert], bias [n_expert] or None, score_function, norm, scale,
          n_groups, n_groups_used, experts i64 [n, top_k], weights [n, top_k]) */
static PyObject *py_choose(PyObject *self, Arguments args, Py_ssize_t n_args)
{
    (void)self;
    struct arrays arrays = {.n = 0};
    struct choice s = {0};
    const Py_buffer *logits, *experts, *weights, *bias = NULL;
    size_t function;
    const struct rows_operations *set = begin(args, n_args, 10);
    if (!set || !(logits = take(&arrays, args[1], "f", 2, 0)) ||
        (args[2] != Py_None && !(bias = take(&arrays, args[2], "f", 1, 0))) ||
        !sized(args[3], &function) || (s.norm = PyObject_IsTrue(args[4])) < 0 ||
        !real(args[5], &s.scale) || !sized(args[6], &s.n_groups) ||
        !sized(args[7], &s.n_groups_used) ||
        !(experts = take(&arrays, args[8], INT64, 2, 1)) ||
        !(weights = take(&arrays, args[9], "f", 2, 1)))
        return release(&arrays, 0);
    if (function < SOFTMAX || function > SOFTMAX_OF_CHOSEN)
        return release(&arrays, refuse("logits and score function"));
    s.function = (enum score_function)function;
    s.n = extent(logits, 0), s.n_expert = extent(logits, 1), s.top_k = extent(experts, 1);
    if (!choice_fits(&s, bias, experts, weights))
        return release(&arrays, 0);
    s.logits = logits->buf, s.bias = bias ? bias->buf : NULL;
    s.experts = experts->buf, s.weights = weights->buf;
    s.scratch = PyMem_Malloc(3 * s.n_expert * sizeof(float));
    if (!s.scratch) {
        PyErr_NoMemory();
        return release(&arrays, 0);
    }
    RUN(set->choose, &s, (double)s.n * s.n_expert * s.top_k);
    PyMem_Free(s.scratch);
    return release(&arrays, 1);
}

/* weighted_sum(set, values [n, top_k, n_embd], weights [n, top_k], out [n, n_embd]) */
static PyObject *py_weighted_sum(PyObject *self, Arguments args, Py_ssize_t n_args)
{
    (void)self;
    struct arrays arrays = {.n = 0};
    struct weighted_sum s = {0};
    const Py_buffer *values, *weights, *out;
    const struct rows_operations *set = begin(args, n_args, 4);
    if (!set || !(values = take(&arrays, args[1], "f", 3, 0)) ||
        !(weights = take(&arrays, args[2], "f", 2, 0)) ||
        !(out = take(&arrays, args[3], "f", 2, 1)))
        return release(&arrays, 0);
    s.n = extent(values, 0), s.top_k = extent(values, 1), s.n_embd = extent(values, 2);
    if (extent(weights, 0) != s.n || extent(weights, 1) != s.top_k ||
        extent(out, 0) != s.n || extent(out, 1) != s.n_embd)
        return release(&arrays, refuse("values and weights of a sum"));
    s.values = values->buf, s.weights = weights->buf, s.out = out->buf;
    RUN(set->weighted_sum, &s, (double)s.n * s.top_k * s.n_embd);
    return release(&arrays, 1);
}

/* sets(): the names of the sets that run here, by their numbers, the best one last. */
static PyObject *py_sets(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *names = PyDict_New();
    for (int set = 0; names && set < CPU_N_SETS; set++) {
        if (!sets[set] || !cpu_has((enum cpu_set)set))
            continue;
        PyObject *number = PyLong_FromLong(set);
        if (!number || PyDict_SetItemString(names, cpu_name((enum cpu_set)set), number))
            Py_CLEAR(names);
        Py_XDECREF(number);
    }
    return names;
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    METHOD(rms_norm),     METHOD(turn),         METHOD(dot_scores),
    METHOD(attend),       METHOD(lane_product), METHOD(choose),
    METHOD(weighted_sum), METHOD(attend_runs),  {"sets", py_sets, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_rows", NULL, 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__rows(void)
{
    return PyModuleDef_Init(&module);
}
