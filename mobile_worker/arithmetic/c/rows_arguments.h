/* What rows_module.c takes its arguments with: arrays by the buffer protocol, and numbers.
 *
 * Every function that fails sets a Python error.
 */
#ifndef P2PMOE_ROWS_ARGUMENTS_H
#define P2PMOE_ROWS_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "float_mode.h"
#include "gil.h"

enum { MAX_ARRAYS = 6 };

/* The letter of a 64-bit integer, as numpy names the one that it uses here. */
#define INT64 (sizeof(long) == 8 ? "lq" : "q")

/* The arrays of one call, released together. */
struct arrays {
    Py_buffer held[MAX_ARRAYS];
    int n;
};

static PyObject *release(struct arrays *arrays, int ok)
{
    while (arrays->n)
        PyBuffer_Release(&arrays->held[--arrays->n]);
    if (!ok)
        return NULL;
    Py_RETURN_NONE;
}

/* Take an array of `n_dims` dimensions, or of any number from 1 on (0). `kinds` are the
   letters of its type, as in Python's struct. NULL and an error set if it is another. */
static const Py_buffer *take(struct arrays *arrays, PyObject *object, const char *kinds,
                             int n_dims, int for_writing)
{
    Py_buffer *view = &arrays->held[arrays->n];
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (for_writing ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags))
        return NULL;
    arrays->n++;
    const char *format = view->format ? view->format : "B";
    if (!format[0] || format[1] || !strchr(kinds, format[0])) {
        PyErr_Format(PyExc_TypeError, "an array of type '%s' where '%c' is needed", format,
                     kinds[0]);
        return NULL;
    }
    if (view->itemsize && (uintptr_t)view->buf % (size_t)view->itemsize) {
        PyErr_SetString(PyExc_ValueError, "an array that is not aligned to its values");
        return NULL;
    }
    if (n_dims ? view->ndim != n_dims : view->ndim < 1) {
        PyErr_Format(PyExc_ValueError, "an array of %d dimensions where %d are needed",
                     view->ndim, n_dims ? n_dims : 1);
        return NULL;
    }
    return view;
}

static inline size_t extent(const Py_buffer *view, int axis)
{
    return (size_t)view->shape[axis];
}

static inline int refuse(const char *what)
{
    PyErr_Format(PyExc_ValueError, "arrays do not belong together: %s", what);
    return 0;
}

static inline int sized(PyObject *object, size_t *value)
{
    *value = PyLong_AsSize_t(object);
    return *value != (size_t)-1 || !PyErr_Occurred();
}

static inline int real(PyObject *object, float *value)
{
    const double wide = PyFloat_AsDouble(object);
    *value = (float)wide;
    return wide != -1.0 || !PyErr_Occurred();
}

/* Run an operation of about `work` multiply-adds. */
#define RUN(operation, job, work)                                                      \
    do {                                                                               \
        PyThreadState *held = release_gil((double)(work));                             \
        struct float_mode outer = float_mode_enter();                                  \
        (operation)(job);                                                              \
        float_mode_leave(outer);                                                       \
        take_gil_back(held);                                                           \
    } while (0)

typedef PyObject *const *Arguments;

#endif
