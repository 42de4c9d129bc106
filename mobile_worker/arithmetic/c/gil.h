/* Releasing Python's lock (the GIL) where that pays.
 *
 *     PyThreadState *held = release_gil(work);
 *     compute(...);
 *     take_gil_back(held);
 *
 * Where several threads decode, whoever releases the lock waits for it afterwards until
 * another thread comes to release it in turn; a short computation (some 15 microseconds,
 * `work` being its multiply-adds) keeps the lock, because to hand it over and to get it
 * back costs more. Include after Python.h.
 */
#ifndef P2PMOE_GIL_H
#define P2PMOE_GIL_H

#define WORTH_RELEASING ((double)(1 << 18))

static inline PyThreadState *release_gil(double work)
{
    return work < WORTH_RELEASING ? NULL : PyEval_SaveThread();
}

static inline void take_gil_back(PyThreadState *held)
{
    if (held)
        PyEval_RestoreThread(held);
}

#endif
