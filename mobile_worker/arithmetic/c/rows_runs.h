/* Attention of a step with several sequences in one call; included by rows_module.c.
 *
 * Each run of rows has a cache of its own, to which its keys and values are written
 * first. All checks of one run are made before it is touched.
 */
#ifndef P2PMOE_ROWS_RUNS_H
#define P2PMOE_ROWS_RUNS_H

#include <string.h>

/* Write new keys and values behind a run's earlier ones. */
static void keep_run(const struct attention *s, const float *new_keys,
                     const float *new_values, float *keys, float *values)
{
    const size_t n_heads = s->n_kv * s->head_dim, n_values = s->n_kv * s->value_dim;
    for (size_t i = 0; i < s->n; i++) {
        float *column = keys + s->first + i;
        for (size_t d = 0; d < n_heads; d++)
            column[d * s->stride] = new_keys[i * n_heads + d];
    }
    memcpy(values + s->first * n_values, new_values, s->n * n_values * sizeof(float));
}

/* Keep and attend one run (keys, values, first, n rows, seen or None) whose rows begin at
   `row` of all; how many it has, 0 with an error set. */
static size_t attend_run(const struct rows_operations *set, struct attention s,
                         PyObject *run, const float *new_keys, const float *new_values,
                         size_t n_left)
{
    struct arrays arrays = {.n = 0};
    const Py_buffer *keys, *values, *seen = NULL;
    if (!PyTuple_Check(run) || PyTuple_Size(run) != 5) {
        PyErr_SetString(PyExc_TypeError, "a run is a tuple of five");
        return 0;
    }
    PyObject *mask = PyTuple_GetItem(run, 4);
    size_t n_done = 0;
    if (!(keys = take(&arrays, PyTuple_GetItem(run, 0), "f", 3, 1)) ||
        !(values = take(&arrays, PyTuple_GetItem(run, 1), "f", 3, 1)) ||
        !sized(PyTuple_GetItem(run, 2), &s.first) || !sized(PyTuple_GetItem(run, 3), &s.n) ||
        (mask != Py_None && !(seen = take(&arrays, mask, "?", 3, 0))))
        goto done;
    s.stride = extent(keys, 2), s.row_end = s.n, s.head_end = s.n_kv * s.group;
    if (!s.n || s.n > n_left || extent(values, 2) != s.value_dim) {
        refuse("the rows of a run");
        goto done;
    }
    if (!attention_fits(&s, keys, values, seen, NULL))
        goto done;
    s.keys = keys->buf, s.values = values->buf, s.seen = seen ? seen->buf : NULL;
    if (!(s.scratch = attention_scratch(&s)))
        goto done;
    keep_run(&s, new_keys, new_values, keys->buf, values->buf);
    RUN(set->attend, &s, attention_work(&s));
    PyMem_Free(s.scratch);
    n_done = s.n;
done:
    Py_XDECREF(release(&arrays, 0));
    return n_done;
}

/* attend_runs(set, queries [n, n_kv, group, head_dim], new_keys [n, n_kv, head_dim],
               new_values [n, n_kv, value_dim], runs, scale, window or 0, soft_cap or 0,
               sinks [n_kv, group] or None, out [n, n_kv, group, value_dim])

   A run is (keys, values, first, how many rows, seen or None), each as for `attend`: the
   rows' keys and values are written there before they attend. Runs follow each other
   and have all n rows. */
static PyObject *py_attend_runs(PyObject *self, Arguments args, Py_ssize_t n_args)
{
    (void)self;
    struct arrays arrays = {.n = 0};
    struct attention s = {0};
    const Py_buffer *queries, *keys, *values, *out, *sinks = NULL;
    const struct rows_operations *set = begin(args, n_args, 10);
    if (!set || !(queries = take(&arrays, args[1], "f", 4, 0)) ||
        !(keys = take(&arrays, args[2], "f", 3, 0)) ||
        !(values = take(&arrays, args[3], "f", 3, 0)) || !real(args[5], &s.scale) ||
        !sized(args[6], &s.window) || !real(args[7], &s.soft_cap) ||
        (args[8] != Py_None && !(sinks = take(&arrays, args[8], "f", 2, 0))) ||
        !(out = take(&arrays, args[9], "f", 4, 1)))
        return release(&arrays, 0);
    const size_t n = extent(queries, 0);
    s.n_kv = extent(queries, 1), s.group = extent(queries, 2);
    s.head_dim = extent(queries, 3), s.value_dim = extent(values, 2);
    if (extent(keys, 0) != n || extent(keys, 1) != s.n_kv ||
        extent(keys, 2) != s.head_dim || extent(values, 0) != n ||
        extent(values, 1) != s.n_kv || extent(out, 0) != n || extent(out, 1) != s.n_kv ||
        extent(out, 2) != s.group || extent(out, 3) != s.value_dim)
        return release(&arrays, refuse("queries, new keys and values, and result"));
    if (!rule_fits(&s, sinks))
        return release(&arrays, 0);
    if (!PyTuple_Check(args[4])) {
        PyErr_SetString(PyExc_TypeError, "runs are a tuple");
        return release(&arrays, 0);
    }
    s.sinks = sinks ? sinks->buf : NULL;
    size_t row = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(args[4]); i++) {
        s.queries = (const float *)queries->buf + row * s.n_kv * s.group * s.head_dim;
        s.out = (float *)out->buf + row * s.n_kv * s.group * s.value_dim;
        const size_t n_rows = attend_run(
            set, s, PyTuple_GetItem(args[4], i),
            (const float *)keys->buf + row * s.n_kv * s.head_dim,
            (const float *)values->buf + row * s.n_kv * s.value_dim, n - row);
        if (!n_rows)
            return release(&arrays, 0);
        row += n_rows;
    }
    return release(&arrays, row == n || refuse("rows that are in no run"));
}

#endif
