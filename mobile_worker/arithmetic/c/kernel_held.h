/* Weights that are checked and held once, for as long as a capsule lives; and what is
   computed with them from plain floats: a layer's linear and its routed experts.

   Included by kernel_module.c, behind kernel_arguments.h. A capsule owns the buffers of
   its matrices. What is called with it has only its own arrays to check. */

#ifndef P2PMOE_KERNEL_HELD_H
#define P2PMOE_KERNEL_HELD_H

#include <string.h>

#include "gil.h"
#include "kernel_arguments.h"

#define HELD_MATRIX "p2pmoe.held_matrix"
#define HELD_EXPERT "p2pmoe.held_expert"

struct held_matrix {
    struct held held;
    struct matrix matrix;
};

struct held_expert {
    struct held held;
    struct expert expert;
};

static void drop_matrix(PyObject *capsule)
{
    struct held_matrix *own = PyCapsule_GetPointer(capsule, HELD_MATRIX);
    if (own)
        release(&own->held);
    PyMem_Free(own);
}

static void drop_expert(PyObject *capsule)
{
    struct held_expert *own = PyCapsule_GetPointer(capsule, HELD_EXPERT);
    if (own)
        release(&own->held);
    PyMem_Free(own);
}

static PyObject *hold_matrix(PyObject *module, PyObject *object)
{
    (void)module;
    struct held_matrix *own = PyMem_Calloc(1, sizeof *own);
    if (!own)
        return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (read_matrix(&own->held, object, &own->matrix))
        capsule = PyCapsule_New(own, HELD_MATRIX, drop_matrix);
    if (!capsule) {
        release(&own->held);
        PyMem_Free(own);
    }
    return capsule;
}

static PyObject *hold_expert(PyObject *module, PyObject *object)
{
    (void)module;
    struct held_expert *own = PyMem_Calloc(1, sizeof *own);
    if (!own)
        return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (read_expert(&own->held, object, &own->expert))
        capsule = PyCapsule_New(own, HELD_EXPERT, drop_expert);
    if (!capsule) {
        release(&own->held);
        PyMem_Free(own);
    }
    return capsule;
}

/* Rows of floats, and their codes if they are needed; `block` is freed by the caller. */
struct coded {
    struct input x;
    void *block;
};

static int is_coded(const struct matrix *matrix)
{
    return layout_of(matrix->format).width != 0;
}

static enum outcome code_input(const struct kernel_set *set, int needs_codes,
                               struct coded *own)
{
    struct input *x = &own->x;
    size_t n = x->n * x->n_cols;
    own->block = NULL;
    if (!needs_codes)
        return DONE;
    if (!set->finite(n, x->floats))
        return NOT_FINITE;
    int8_t *codes = malloc(n + n / 8 + n / 4 + 4); /* with scales, and sums of 16 */
    if (!codes)
        return NO_MEMORY;
    own->block = codes;
    float *scales = (float *)(codes + n);
    int32_t *sums = (int32_t *)(codes + n + n / 8);
    set->code_i8(n, x->floats, codes, scales);
    set->code_sums(n, codes, sums);
    x->codes = codes, x->scales = scales, x->sums = sums;
    return DONE;
}

/* Hold x f32 [n, n_cols]; 0 with an exception. */
static int read_floats(struct held *held, PyObject *object, Py_ssize_t n,
                       Py_ssize_t n_cols, struct coded *own)
{
    own->x = (struct input){.n = (size_t)n, .n_cols = (size_t)n_cols};
    if (n < 0 || n_cols <= 0 || object == Py_None) {
        PyErr_SetString(PyExc_ValueError, "rows of input of no possible shape");
        return 0;
    }
    return read_input(held, Py_None, Py_None, object, &own->x);
}

/* linear(set, matrices, x f32 [n, n_cols], n, n_cols, out f32 [n, sum of n_rows]) */
static PyObject *linear(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *matrices, *x_object, *out_object;
    Py_ssize_t n, n_cols;
    if (!PyArg_ParseTuple(arguments, "sO!OnnO", &name, &PyTuple_Type, &matrices,
                          &x_object, &n, &n_cols, &out_object))
        return NULL;
    const struct kernel_set *set = find_set(name);
    struct held held = {0};
    struct coded own = {0};
    PyObject *result = NULL;
    size_t width = 0, n_bytes;
    int needs_codes = 0;
    double work = 0;
    if (!set || !read_floats(&held, x_object, n, n_cols, &own))
        goto done;
    for (Py_ssize_t i = 0; i < PyTuple_Size(matrices); i++) {
        struct held_matrix *w =
            PyCapsule_GetPointer(PyTuple_GetItem(matrices, i), HELD_MATRIX);
        if (!w)
            goto done;
        if (w->matrix.n_cols != own.x.n_cols) {
            PyErr_Format(PyExc_ValueError, "no rows of %zu values", w->matrix.n_cols);
            goto done;
        }
        width += w->matrix.n_rows;
        needs_codes |= is_coded(&w->matrix);
        work += (double)own.x.n * w->matrix.n_rows * w->matrix.n_cols;
    }
    if (width > 64 * MAX_SIDE || __builtin_mul_overflow(own.x.n * 4, width, &n_bytes)) {
        PyErr_SetString(PyExc_ValueError, "results beyond all memory");
        goto done;
    }
    float *out = hold(&held, out_object, n_bytes, 4, 1, "results");
    if (!out)
        goto done;
    size_t n_matrices = (size_t)PyTuple_Size(matrices), column = 0;
    const struct matrix **each = PyMem_Calloc(n_matrices + 1, sizeof *each);
    if (!each) {
        PyErr_NoMemory();
        goto done;
    }
    for (size_t i = 0; i < n_matrices; i++)
        each[i] = &((struct held_matrix *)PyCapsule_GetPointer(
                        PyTuple_GetItem(matrices, (Py_ssize_t)i), HELD_MATRIX))->matrix;
    PyThreadState *lock = release_gil(work);
    struct float_mode outer = float_mode_enter();
    enum outcome outcome = code_input(set, needs_codes, &own);
    for (size_t i = 0; outcome == DONE && i < n_matrices; column += each[i]->n_rows, i++)
        set->product(each[i], &own.x, out + column, width);
    float_mode_leave(outer);
    free(own.block);
    take_gil_back(lock);
    PyMem_Free(each);
    result = tell(outcome);
done:
    release(&held);
    return result;
}

/* A layer's routed experts: which are here, and who asks for which. */
struct routed {
    const struct expert **experts; /* [n_experts] */
    const int64_t *ids;            /* [n_experts], ascending */
    const int64_t *chosen;         /* [n, top_k], or NULL: all rows, the one expert */
    size_t n_experts, n, top_k, n_embd;
    uint8_t *out; /* f32 [n, top_k, n_embd] */
    enum result result;
};

/* The rows and places of one expert's calls, in `rows` and `places`; how many. */
static size_t rows_of(const struct routed *r, size_t expert, int64_t *rows, size_t *places)
{
    size_t n = 0;
    for (size_t at = 0; at < r->n * r->top_k; at++)
        if (!r->chosen || r->chosen[at] == r->ids[expert]) {
            rows[n] = (int64_t)(at / r->top_k);
            places[n++] = at;
        }
    return n;
}

static enum outcome run_routed(const struct kernel_set *set, const struct routed *r,
                               const struct input *x)
{
    size_t n_places = r->n * r->top_k, row_bytes = r->n_embd * 4;
    int64_t *rows = malloc(n_places * (sizeof *rows + sizeof(size_t)) + 8);
    uint8_t *values = malloc(r->n * row_bytes + 8);
    size_t *places = rows ? (size_t *)(rows + n_places) : NULL;
    enum outcome outcome = rows && values ? DONE : NO_MEMORY;
    for (size_t e = 0; e < r->n_experts && outcome == DONE; e++) {
        size_t n = rows_of(r, e, rows, places);
        if (n > r->n) { /* a row that asks for an expert twice */
            outcome = CODE_REFUSED;
            break;
        }
        if (r->chosen && n == 1) {
            outcome = run_expert(set, r->experts[e], x, rows, 1, r->result,
                                 r->out + places[0] * row_bytes);
            continue;
        }
        if (!r->chosen)
            outcome = run_expert(set, r->experts[e], x, NULL, n, r->result, r->out);
        else
            outcome = run_expert(set, r->experts[e], x, rows, n, r->result, values);
        for (size_t i = 0; r->chosen && i < n && outcome == DONE; i++)
            memcpy(r->out + places[i] * row_bytes, values + i * row_bytes, row_bytes);
    }
    free(values);
    free(rows);
    return outcome;
}

/* Read the capsules of experts that take rows of x; 0 with an exception. */
static int read_experts(PyObject *capsules, const struct input *x, struct routed *r,
                        int *needs_codes, double *macs)
{
    for (size_t i = 0; i < r->n_experts; i++) {
        struct held_expert *own =
            PyCapsule_GetPointer(PyTuple_GetItem(capsules, (Py_ssize_t)i), HELD_EXPERT);
        if (!own)
            return 0;
        const struct expert *e = r->experts[i] = &own->expert;
        if (e->gate.n_cols != x->n_cols || e->down.n_rows != r->n_embd) {
            PyErr_Format(PyExc_ValueError, "an expert of %zu to %zu values",
                         e->gate.n_cols, e->down.n_rows);
            return 0;
        }
        *needs_codes |= is_coded(&e->gate) || is_coded(&e->up);
        *macs = 3.0 * (double)e->gate.n_rows * (double)e->gate.n_cols;
    }
    return 1;
}

/* routed(set, experts, ids i64 [n_experts] ascending, chosen i64 [n, top_k] or None,
          x f32 [n, n_cols], n, n_cols, top_k, result, out f32 [n, top_k, n_embd])

   Every place of `out` whose expert is among `ids` gets that expert's values of its row;
   others are left alone. Without `chosen` there is one expert, and every row goes
   through it. `result` is one of the VALUES of enum result. */
static PyObject *routed(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *capsules, *ids, *chosen, *x_object, *out;
    Py_ssize_t n, n_cols, top_k, n_embd;
    int result_kind;
    if (!PyArg_ParseTuple(arguments, "sO!OOOnnniOn", &name, &PyTuple_Type, &capsules, &ids,
                          &chosen, &x_object, &n, &n_cols, &top_k, &result_kind, &out,
                          &n_embd))
        return NULL;
    const struct kernel_set *set = find_set(name);
    if (!set)
        return NULL;
    struct routed r = {.n_experts = (size_t)PyTuple_Size(capsules), .top_k = (size_t)top_k,
                       .n_embd = (size_t)n_embd, .result = (enum result)result_kind};
    if (top_k <= 0 || n_embd <= 0 || n_embd > (Py_ssize_t)MAX_SIDE || n < 0 ||
        (size_t)n > MAX_SIDE || (size_t)top_k > 1024 || result_kind < VALUES_R32 ||
        result_kind > VALUES_R8 ||
        (chosen == Py_None && (r.n_experts != 1 || top_k != 1))) {
        PyErr_SetString(PyExc_ValueError, "experts and results do not fit each other");
        return NULL;
    }
    struct held held = {0};
    struct coded own = {0};
    PyObject *result = NULL;
    int needs_codes = 0;
    double macs = 0;
    size_t n_bytes;
    r.n = (size_t)n;
    if (__builtin_mul_overflow(4 * r.n * r.top_k, r.n_embd, &n_bytes)) {
        PyErr_SetString(PyExc_ValueError, "results beyond all memory");
        return NULL;
    }
    r.experts = PyMem_Calloc(r.n_experts + 1, sizeof *r.experts);
    if (!r.experts)
        return PyErr_NoMemory();
    if (!read_floats(&held, x_object, n, n_cols, &own) ||
        !read_experts(capsules, &own.x, &r, &needs_codes, &macs) ||
        !(r.ids = hold(&held, ids, 8 * r.n_experts, 8, 0, "ids")) ||
        (chosen != Py_None &&
         !(r.chosen = hold(&held, chosen, 8 * r.n * r.top_k, 8, 0, "choices"))) ||
        !(r.out = hold(&held, out, n_bytes, 4, 1, "results")))
        goto done;
    PyThreadState *lock = release_gil(macs * (double)(r.n * r.top_k));
    struct float_mode outer = float_mode_enter();
    enum outcome outcome = code_input(set, needs_codes, &own);
    if (outcome == DONE)
        outcome = run_routed(set, &r, &own.x);
    float_mode_leave(outer);
    free(own.block);
    take_gil_back(lock);
    result = tell(outcome);
done:
    PyMem_Free(r.experts);
    release(&held);
    return result;
}

#endif
