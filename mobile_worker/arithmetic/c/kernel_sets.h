/* The kernel of each instruction set that this build has. */

#ifndef P2PMOE_KERNEL_SETS_H
#define P2PMOE_KERNEL_SETS_H

#include "cpu.h"
#include "kernel.h"

/* The set's kernel; NULL where this build or this CPU lacks it. */
static inline const struct kernel_set *kernel_of(enum cpu_set set)
{
    static const struct kernel_set *const kernels[CPU_N_SETS] = {
        [CPU_PORTABLE] = &kernel_portable,
#ifdef CPU_BUILDS_NEON
        [CPU_NEON] = &kernel_neon,
#endif
#ifdef CPU_BUILDS_X86
        [CPU_AVX2] = &kernel_avx2,
        [CPU_AVX512] = &kernel_avx512,
#endif
    };
    return set < CPU_N_SETS && cpu_has(set) ? kernels[set] : NULL;
}

#endif
