/* The kernel of each instruction set that this build has. */

#ifndef P2PMOE_KERNEL_SETS_H
#define P2PMOE_KERNEL_SETS_H

#include "cpu.h"
#include "kernel.h"

/* The sets that run here, best first, and NULL behind them; looked for once, since the
   question itself costs some 30 us where a hypervisor answers it. */
static inline const struct kernel_set *const *kernels_here(void)
{
    static const struct kernel_set *here[CPU_N_SETS + 1];
    static const struct kernel_set *const all[CPU_N_SETS] = {
        [CPU_PORTABLE] = &kernel_portable,
#ifdef CPU_BUILDS_NEON
        [CPU_NEON] = &kernel_neon,
#endif
#ifdef CPU_BUILDS_X86
        [CPU_AVX2] = &kernel_avx2,
        [CPU_AVX512] = &kernel_avx512,
#endif
    };
    if (!here[0])
        for (int set = CPU_N_SETS - 1, n = 0; set >= 0; set--)
            if (all[set] && cpu_has((enum cpu_set)set))
                here[n++] = all[set];
    return here;
}

/* The set of a name; NULL where this build or this CPU lacks it. */
static inline const struct kernel_set *kernel_of(const char *name)
{
    for (const struct kernel_set *const *set = kernels_here(); *set; set++)
        if (!strcmp((*set)->name, name))
            return *set;
    return NULL;
}

#endif
