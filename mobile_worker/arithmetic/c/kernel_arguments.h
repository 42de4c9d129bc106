/* How arguments of the extension become checked structures; included by kernel_module.c.

   Every length is checked against the shapes before anything is read or written; what
   does not fit is a ValueError. Buffers are held until the call has ended. */

#ifndef P2PMOE_KERNEL_ARGUMENTS_H
#define P2PMOE_KERNEL_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>

#include "elementary.h"
#include "expert.h"
#include "formats.h"
#include "kernel_sets.h"

#if SIZE_MAX < UINT64_MAX
#error "sizes are checked in 64 bits: machines of 32 bits compute with numpy"
#endif

static PyObject *tell(enum outcome outcome)
{
    return outcome == NO_MEMORY ? PyErr_NoMemory() : PyLong_FromLong(outcome);
}

#define MAX_SIDE ((size_t)1 << 28) /* so that 4 * side * side is below 2^63 */

/* Buffers held for the time of one call. */
struct held {
    Py_buffer *views;
    size_t n, room;
};

static void release(struct held *held)
{
    for (size_t i = 0; i < held->n; i++)
        PyBuffer_Release(held->views + i);
    PyMem_Free(held->views);
}

/* The start of a contiguous buffer of exactly n_bytes; NULL with ValueError. */
static void *hold(struct held *held, PyObject *object, size_t n_bytes, size_t alignment,
                  int writable, const char *what)
{
    if (held->n == held->room) {
        size_t room = held->room ? 2 * held->room : 16;
        Py_buffer *views = PyMem_Realloc(held->views, room * sizeof *views);
        if (!views)
            return PyErr_NoMemory();
        held->views = views;
        held->room = room;
    }
    Py_buffer *view = held->views + held->n;
    int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags))
        return NULL;
    held->n++;
    if ((size_t)view->len != n_bytes) {
        PyErr_Format(PyExc_ValueError, "%s: %zd bytes, not %zu", what, view->len, n_bytes);
        return NULL;
    }
    if ((uintptr_t)view->buf % alignment) {
        PyErr_Format(PyExc_ValueError, "%s: not aligned to %zu bytes", what, alignment);
        return NULL;
    }
    static char nothing[64]; /* a buffer of no bytes may lie nowhere */
    return view->buf ? view->buf : nothing;
}

static const struct kernel_set *find_set(const char *name)
{
    const struct kernel_set *set = kernel_of(name);
    if (!set)
        PyErr_Format(PyExc_ValueError, "no instruction set %s here", name);
    return set;
}

/* Read (format, n_rows, n_cols, raw, bias); 0 with an exception if they do not fit. */
static int read_matrix(struct held *held, PyObject *object, struct matrix *matrix)
{
    Py_ssize_t n_rows, n_cols;
    PyObject *raw, *bias;
    if (!PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a matrix is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(object, "innOO", &matrix->format, &n_rows, &n_cols, &raw, &bias))
        return 0;
    struct layout layout = layout_of(matrix->format);
    if (!layout.values || n_rows <= 0 || n_cols <= 0 || n_cols % 32 ||
        n_cols % layout.values || (size_t)n_rows > MAX_SIDE || (size_t)n_cols > MAX_SIDE) {
        PyErr_Format(PyExc_ValueError, "no matrix of %zd x %zd in format %d", n_rows,
                     n_cols, matrix->format);
        return 0;
    }
    matrix->n_rows = (size_t)n_rows;
    matrix->n_cols = (size_t)n_cols;
    size_t row_bytes = matrix->n_cols / layout.values * layout.bytes;
    if (matrix->n_rows > (size_t)PY_SSIZE_T_MAX / row_bytes) {
        PyErr_SetString(PyExc_ValueError, "a matrix beyond all memory");
        return 0;
    }
    matrix->raw = hold(held, raw, matrix->n_rows * row_bytes, 1, 0, "weights");
    matrix->bias = NULL;
    if (matrix->raw && bias != Py_None)
        matrix->bias = hold(held, bias, matrix->n_rows * 4, 4, 0, "bias");
    return matrix->raw && (matrix->bias || bias == Py_None);
}

/* Hold n rows of n_cols values: codes with scales, floats, or both. */
static int read_input(struct held *held, PyObject *codes, PyObject *scales,
                      PyObject *floats, struct input *x)
{
    if (x->n > MAX_SIDE || x->n_cols > MAX_SIDE || x->n_cols % 32) {
        PyErr_SetString(PyExc_ValueError, "rows of input of no possible shape");
        return 0;
    }
    if (codes != Py_None) {
        x->codes = hold(held, codes, x->n * x->n_cols, 1, 0, "codes");
        if (!x->codes)
            return 0;
        x->scales = hold(held, scales, x->n * x->n_cols / 8, 4, 0, "scales");
        if (!x->scales)
            return 0;
    }
    if (floats != Py_None) {
        x->floats = hold(held, floats, x->n * x->n_cols * 4, 4, 0, "floats");
        if (!x->floats)
            return 0;
    }
    return 1;
}

/* Whether x has the kind of rows that a matrix multiplies; 0 with ValueError. */
static int fits(const struct matrix *matrix, const struct input *x, const char *what)
{
    int integer = layout_of(matrix->format).width != 0;
    if (matrix->n_cols == x->n_cols && (integer ? (void *)x->codes : (void *)x->floats))
        return 1;
    PyErr_Format(PyExc_ValueError, "%s: no %s rows of %zu values", what,
                 integer ? "coded" : "float", matrix->n_cols);
    return 0;
}

/* Check the codes and sum them; the sums are freed by the caller. */
static enum outcome prepare(const struct kernel_set *set, struct input *x, int32_t **sums)
{
    enum outcome outcome = check_input(x);
    *sums = NULL;
    if (!x->codes || outcome != DONE)
        return outcome;
    *sums = malloc(x->n * x->n_cols / 4 + 4);
    if (!*sums)
        return NO_MEMORY;
    set->code_sums(x->n * x->n_cols, x->codes, *sums);
    x->sums = *sums;
    return DONE;
}

struct call {
    struct expert expert;
    const int64_t *rows;
    size_t n_rows;
    uint8_t *out;
};

/* Read (kind, alpha, limit, gate, up, down, anything more); 0 with an exception. */
static int read_expert(struct held *held, PyObject *object, struct expert *e)
{
    PyObject *gate, *up, *down, *more = NULL;
    if (!PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a call is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(object, "iffOOO|O", &e->kind, &e->alpha, &e->limit, &gate, &up,
                          &down, &more) ||
        !read_matrix(held, gate, &e->gate) || !read_matrix(held, up, &e->up) ||
        !read_matrix(held, down, &e->down))
        return 0;
    if (e->up.n_rows != e->gate.n_rows || e->up.n_cols != e->gate.n_cols ||
        e->down.n_cols != e->gate.n_rows || e->down.n_rows % 32 ||
        (e->kind != SWIGLU && e->kind != SWIGLU_OAI)) {
        PyErr_SetString(PyExc_ValueError, "matrices that make no expert");
        return 0;
    }
    return 1;
}

/* Read one call and hold its buffers; 0 with an exception. */
static int read_call(struct held *held, PyObject *object, PyObject *out,
                     const struct input *x, enum result result, struct call *call)
{
    struct expert *e = &call->expert;
    if (!read_expert(held, object, e) || !fits(&e->gate, x, "gate") ||
        !fits(&e->up, x, "up"))
        return 0;
    if (PyTuple_Size(object) != 7) {
        PyErr_SetString(PyExc_TypeError, "a call is a tuple of seven");
        return 0;
    }
    PyObject *rows = PyTuple_GetItem(object, 6);
    call->n_rows = x->n;
    call->rows = NULL;
    if (rows != Py_None) {
        Py_ssize_t length = PyObject_Size(rows);
        if (length < 0)
            return 0;
        if ((size_t)length > MAX_SIDE) { /* which 8 bytes each might wrap around */
            PyErr_Format(PyExc_ValueError, "%zd chosen rows are too many", length);
            return 0;
        }
        call->n_rows = (size_t)length;
        call->rows = hold(held, rows, 8 * call->n_rows, 8, 0, "chosen rows");
        if (!call->rows)
            return 0;
        for (size_t i = 0; i < call->n_rows; i++)
            if (call->rows[i] < 0 || (size_t)call->rows[i] >= x->n) {
                PyErr_Format(PyExc_ValueError, "no row %lld of %zu",
                             (long long)call->rows[i], x->n);
                return 0;
            }
    }
    size_t n_bytes;
    if (__builtin_mul_overflow(call->n_rows, result_row_bytes(result, e->down.n_rows),
                               &n_bytes)) {
        PyErr_SetString(PyExc_ValueError, "results beyond all memory");
        return 0;
    }
    call->out = hold(held, out, n_bytes, 4, 1, "results");
    return call->out != NULL;
}

static int read_calls(struct held *held, PyObject *calls, PyObject *outs,
                      const struct input *x, enum result result, struct call *out)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(calls); i++)
        if (!read_call(held, PyTuple_GetItem(calls, i), PyTuple_GetItem(outs, i), x,
                       result, out + i))
            return 0;
    return 1;
}

#endif
