/* The backbone's own operations with NEON, which every aarch64 CPU has. */
#include "cpu.h"

#ifdef CPU_BUILDS_NEON
#define ROWS_TABLE rows_neon
#include "rows_body.h"
#else
typedef int no_aarch64_here;
#endif
