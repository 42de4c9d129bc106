/* The CPython extension `mobile_worker.arithmetic.native._kernel` (stable ABI, 3.11).

     sets() -> tuple of the names of the instruction sets that run here, best first
     product(set, matrix, codes, scales, floats, n, out, stride, column) -> outcome
     experts(set, calls, codes, scales, floats, n, n_cols, result, outs) -> outcome
     code_rows(set, x, n_values, codes, scales) -> outcome
     hold_matrix(matrix), hold_expert(call without its rows) -> a capsule for the next two
     linear(set, matrices, x, n, n_cols, out) -> outcome
     routed(set, experts, ids, chosen, x, n, n_cols, top_k, result, out, n_embd) -> outcome

   A matrix is (format, n_rows, n_cols, raw, bias or None); a call is (kind, alpha,
   limit, gate, up, down, rows or None). `n` rows of input come coded, as floats, or
   both; None stands for a kind that is not there. `stride` and `column` say where in
   wider rows of `out` the products go; `result` is enum result of expert.h. Buffers are
   contiguous; every length is checked against the shapes before anything is read or
   written, and what does not fit is a ValueError. An outcome is 0 for done, 1 for a value
   that is not finite, 2 for a code or scale that the coding cannot produce; out is then
   of no meaning. The arithmetic runs without the interpreter's lock. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>

#include "expert.h"
#include "float_mode.h"
#include "kernel_arguments.h"
#include "kernel_held.h"
#include "kernel_sets.h"

static PyObject *sets(PyObject *module, PyObject *arguments)
{
    (void)module, (void)arguments;
    PyObject *names = PyList_New(0);
    for (const struct kernel_set *const *set = kernels_here(); names && *set; set++) {
        PyObject *name = PyUnicode_FromString((*set)->name);
        if (!name || PyList_Append(names, name))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    PyObject *tuple = names ? PyList_AsTuple(names) : NULL;
    Py_XDECREF(names);
    return tuple;
}

static PyObject *product(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *matrix_object, *codes, *scales, *floats, *out_object;
    Py_ssize_t n, stride, column;
    if (!PyArg_ParseTuple(arguments, "sOOOOnOnn", &name, &matrix_object, &codes, &scales,
                          &floats, &n, &out_object, &stride, &column))
        return NULL;
    const struct kernel_set *set = find_set(name);
    struct held held = {0};
    struct matrix matrix;
    PyObject *result = NULL;
    if (!set || !read_matrix(&held, matrix_object, &matrix))
        goto done;
    struct input x = {.n = (size_t)n, .n_cols = matrix.n_cols};
    if (n < 0 || column < 0 || stride < 0 || (size_t)stride > 64 * MAX_SIDE ||
        (size_t)column + matrix.n_rows > (size_t)stride) {
        PyErr_SetString(PyExc_ValueError, "the results do not fit their place");
        goto done;
    }
    if (!read_input(&held, codes, scales, floats, &x) || !fits(&matrix, &x, "input"))
        goto done;
    size_t n_bytes;
    if (__builtin_mul_overflow(x.n * 4, (size_t)stride, &n_bytes)) {
        PyErr_SetString(PyExc_ValueError, "results beyond all memory");
        goto done;
    }
    float *out = hold(&held, out_object, n_bytes, 4, 1, "results");
    if (!out)
        goto done;
    enum outcome outcome;
    Py_BEGIN_ALLOW_THREADS
    int32_t *sums;
    struct float_mode outer = float_mode_enter();
    outcome = prepare(set, &x, &sums);
    if (outcome == DONE)
        set->product(&matrix, &x, out + column, (size_t)stride);
    float_mode_leave(outer);
    free(sums);
    Py_END_ALLOW_THREADS
    result = tell(outcome);
done:
    release(&held);
    return result;
}

static enum outcome run_calls(const struct kernel_set *set, const struct call *calls,
                              size_t n_calls, struct input *x, enum result result)
{
    int32_t *sums;
    struct float_mode outer = float_mode_enter();
    enum outcome outcome = prepare(set, x, &sums);
    for (size_t i = 0; i < n_calls && outcome == DONE; i++)
        outcome = run_expert(set, &calls[i].expert, x, calls[i].rows, calls[i].n_rows,
                             result, calls[i].out);
    float_mode_leave(outer);
    free(sums);
    return outcome;
}

static PyObject *experts(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *calls_object, *codes, *scales, *floats, *outs;
    Py_ssize_t n, n_cols;
    int kind_of_result;
    if (!PyArg_ParseTuple(arguments, "sO!OOOnniO!", &name, &PyTuple_Type, &calls_object,
                          &codes, &scales, &floats, &n, &n_cols, &kind_of_result,
                          &PyTuple_Type, &outs))
        return NULL;
    const struct kernel_set *set = find_set(name);
    if (!set)
        return NULL;
    size_t n_calls = (size_t)PyTuple_Size(calls_object);
    if (n < 0 || n_cols <= 0 || kind_of_result < CODED_R32 || kind_of_result > VALUES_R8 ||
        (size_t)PyTuple_Size(outs) != n_calls) {
        PyErr_SetString(PyExc_ValueError, "calls and results do not fit each other");
        return NULL;
    }
    enum result result_kind = (enum result)kind_of_result;
    struct input x = {.n = (size_t)n, .n_cols = (size_t)n_cols};
    struct held held = {0};
    PyObject *result = NULL;
    struct call *calls = PyMem_Calloc(n_calls + 1, sizeof *calls);
    if (!calls)
        return PyErr_NoMemory();
    if (read_input(&held, codes, scales, floats, &x) &&
        read_calls(&held, calls_object, outs, &x, result_kind, calls)) {
        enum outcome outcome;
        Py_BEGIN_ALLOW_THREADS
        outcome = run_calls(set, calls, n_calls, &x, result_kind);
        Py_END_ALLOW_THREADS
        result = tell(outcome);
    }
    PyMem_Free(calls);
    release(&held);
    return result;
}

static PyObject *code_rows(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *x_object, *codes_object, *scales_object;
    Py_ssize_t n_values;
    if (!PyArg_ParseTuple(arguments, "sOnOO", &name, &x_object, &n_values, &codes_object,
                          &scales_object))
        return NULL;
    const struct kernel_set *set = find_set(name);
    if (!set)
        return NULL;
    size_t n = (size_t)n_values;
    if (n_values < 0 || n > (size_t)PY_SSIZE_T_MAX / 4 || n % 32)
        return PyErr_Format(PyExc_ValueError, "%zd values are no blocks of 32", n_values);
    struct held held = {0};
    const float *x = hold(&held, x_object, 4 * n, 4, 0, "rows");
    int8_t *codes = x ? hold(&held, codes_object, n, 1, 1, "codes") : NULL;
    float *scales = codes ? hold(&held, scales_object, n / 8, 4, 1, "scales") : NULL;
    PyObject *result = NULL;
    if (scales) {
        enum outcome outcome = DONE;
        Py_BEGIN_ALLOW_THREADS
        struct float_mode outer = float_mode_enter();
        if (!set->finite(n, x))
            outcome = NOT_FINITE;
        else
            set->code_i8(n, x, codes, scales);
        float_mode_leave(outer);
        Py_END_ALLOW_THREADS
        result = tell(outcome);
    }
    release(&held);
    return result;
}

static PyMethodDef methods[] = {
    {"sets", sets, METH_NOARGS, "Names of the instruction sets here, best first."},
    {"product", product, METH_VARARGS, "Multiply rows with a matrix."},
    {"experts", experts, METH_VARARGS, "Run rows through experts."},
    {"code_rows", code_rows, METH_VARARGS, "Code rows with q = 127."},
    {"hold_matrix", hold_matrix, METH_O, "Check a matrix and hold its bytes."},
    {"hold_expert", hold_expert, METH_O, "Check an expert and hold its bytes."},
    {"linear", linear, METH_VARARGS, "Multiply rows of floats with matrices."},
    {"routed", routed, METH_VARARGS, "Run rows of floats through their experts."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_kernel",
    .m_doc = "Products and experts of specification 02 in C.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void);

PyMODINIT_FUNC PyInit__kernel(void)
{
    kernels_here(); /* before any thread asks */
    return PyModuleDef_Init(&definition);
}
