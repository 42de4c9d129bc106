/* The backbone's own operations with AVX2. */
#include "cpu.h"

#ifdef CPU_BUILDS_X86
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

#define ROWS_TABLE rows_avx2
#include "rows_body.h"

#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int no_x86_64_here;
#endif
