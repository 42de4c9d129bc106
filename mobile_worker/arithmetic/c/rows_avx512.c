/* The backbone's own operations with AVX-512 (F, BW, VL, DQ). */
#include "cpu.h"

#ifdef CPU_BUILDS_X86
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,prefer-vector-width=512")
#endif

#define ROWS_TABLE rows_avx512
#include "rows_body.h"

#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int no_x86_64_here;
#endif
