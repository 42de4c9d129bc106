/* Which instruction sets this build knows and this CPU has.
 *
 * A set is a name, a unit compiled for it (NAME_avx512.c, NAME_avx2.c, NAME_neon.c,
 * NAME_portable.c) and a test at run time; every set gives the same bytes, so the choice
 * is one of speed alone. Sets stand in ascending order of preference.
 *
 *     portable   any C compiler
 *     neon       aarch64 with the dot product instructions
 *     avx2       x86-64 with AVX2 and F16C
 *     avx512     x86-64 with AVX-512 F, BW, VL, DQ and VNNI
 *
 * A set counts only if the operating system keeps its registers, too. Never asks the
 * compiler's run-time library, whose list of features differs from version to version.
 * Answers are kept: under a hypervisor each takes some 15 microseconds. Call with the GIL
 * held, or from one thread first.
 */
#ifndef P2PMOE_CPU_H
#define P2PMOE_CPU_H

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define CPU_BUILDS_X86 1
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__GNUC__)
#define CPU_BUILDS_NEON 1
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#endif

enum cpu_set { CPU_PORTABLE, CPU_NEON, CPU_AVX2, CPU_AVX512, CPU_N_SETS };

static inline const char *cpu_name(enum cpu_set set)
{
    static const char *const names[CPU_N_SETS] = {"portable", "neon", "avx2", "avx512"};
    return names[set];
}

#ifdef CPU_BUILDS_X86

/* Registers that the operating system keeps: XCR0. */
static inline unsigned cpu_kept_registers(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static inline int cpu_has_x86(enum cpu_set set)
{
    const unsigned osxsave_avx_f16c = 1u << 27 | 1u << 28 | 1u << 29; /* leaf 1, ecx */
    const unsigned avx2 = 1u << 5;                                    /* leaf 7, ebx */
    const unsigned f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    const unsigned vnni = 1u << 11;       /* leaf 7, ecx */
    const unsigned ymm = 0x6, zmm = 0xe6; /* of XCR0 */
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & osxsave_avx_f16c) != osxsave_avx_f16c)
        return 0;
    const unsigned kept = cpu_kept_registers();
    if ((kept & ymm) != ymm || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & avx2))
        return 0;
    if (set == CPU_AVX2)
        return 1;
    return (kept & zmm) == zmm && (b & f_dq_bw_vl) == f_dq_bw_vl && (c & vnni);
}

#endif

#ifdef CPU_BUILDS_NEON

static inline int cpu_has_dot_product(void)
{
#if defined(__ARM_FEATURE_DOTPROD)
    return 1; /* the whole build asks for it */
#elif defined(__linux__)
    return (getauxval(AT_HWCAP) >> 20) & 1; /* HWCAP_ASIMDDP */
#elif defined(__APPLE__)
    int value = 0;
    size_t size = sizeof value;
    return !sysctlbyname("hw.optional.arm.FEAT_DotProd", &value, &size, NULL, 0) && value;
#else
    return 0;
#endif
}

#endif

static inline int cpu_ask(enum cpu_set set)
{
    switch (set) {
    case CPU_PORTABLE:
        return 1;
#ifdef CPU_BUILDS_NEON
    case CPU_NEON:
        return cpu_has_dot_product();
#endif
#ifdef CPU_BUILDS_X86
    case CPU_AVX2:
    case CPU_AVX512:
        return cpu_has_x86(set);
#endif
    default:
        return 0;
    }
}

/* Whether this build has the set's unit and this CPU can run it. */
static inline int cpu_has(enum cpu_set set)
{
    static int answers[CPU_N_SETS]; /* 0 unasked, 1 no, 2 yes */
    if (!answers[set])
        answers[set] = cpu_ask(set) ? 2 : 1;
    return answers[set] == 2;
}

/* The set to use where nobody asks for another. */
static inline enum cpu_set cpu_best(void)
{
    int set = CPU_N_SETS - 1;
    while (!cpu_has((enum cpu_set)set))
        set--;
    return (enum cpu_set)set;
}

/* The set of a name, or CPU_N_SETS if there is none or this CPU lacks it. */
static inline enum cpu_set cpu_by_name(const char *name)
{
    for (int set = 0; set < CPU_N_SETS; set++)
        if (!strcmp(name, cpu_name((enum cpu_set)set)))
            return cpu_has((enum cpu_set)set) ? (enum cpu_set)set : CPU_N_SETS;
    return CPU_N_SETS;
}

#endif
