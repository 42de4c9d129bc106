/* The floating-point mode of the specification, around every call from outside.
 *
 *     struct float_mode outer = float_mode_enter();
 *     compute(...);
 *     float_mode_leave(outer);
 *
 * Round to nearest even, subnormals kept, nothing trapped, whatever the process had set;
 * the caller's mode and its sticky flags come back afterwards. The mode belongs to the
 * thread. `compute` must be a call that the compiler cannot look into (another unit, a
 * function pointer): compilers move arithmetic across a change of mode.
 */
#ifndef P2PMOE_FLOAT_MODE_H
#define P2PMOE_FLOAT_MODE_H

#include <float.h>

#if FLT_EVAL_METHOD != 0
#error "floats are kept wider than they are: this build cannot be exact (x87?)"
#endif
#ifdef __FAST_MATH__
#error "-ffast-math cannot be exact"
#endif

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>

struct float_mode {
    unsigned mxcsr;
};

static inline struct float_mode float_mode_enter(void)
{
    struct float_mode outer = {_mm_getcsr()};
    _mm_setcsr(0x1f80); /* all masked, to nearest, no FTZ, no DAZ */
    return outer;
}

static inline void float_mode_leave(struct float_mode outer)
{
    _mm_setcsr(outer.mxcsr);
}

#elif defined(__aarch64__)

struct float_mode {
    unsigned long long fpcr, fpsr;
};

static inline struct float_mode float_mode_enter(void)
{
    struct float_mode outer;
    __asm__ volatile("mrs %0, fpcr" : "=r"(outer.fpcr));
    __asm__ volatile("mrs %0, fpsr" : "=r"(outer.fpsr));
    __asm__ volatile("msr fpcr, %0" : : "r"(0ull) : "memory");
    return outer;
}

static inline void float_mode_leave(struct float_mode outer)
{
    __asm__ volatile("msr fpsr, %0" : : "r"(outer.fpsr) : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"(outer.fpcr) : "memory");
}

#elif defined(__wasm__)

struct float_mode {
    char none; /* WebAssembly has this one mode */
};

static inline struct float_mode float_mode_enter(void)
{
    struct float_mode outer = {0};
    return outer;
}

static inline void float_mode_leave(struct float_mode outer)
{
    (void)outer;
}

#else
#include <fenv.h>

struct float_mode {
    fenv_t environment;
};

static inline struct float_mode float_mode_enter(void)
{
    struct float_mode outer;
    fegetenv(&outer.environment);
    fesetenv(FE_DFL_ENV);
    return outer;
}

static inline void float_mode_leave(struct float_mode outer)
{
    fesetenv(&outer.environment);
}

#endif
#endif
