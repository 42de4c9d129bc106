/* The backbone's own operations in whatever the compiler is told to use. */
#define ROWS_TABLE rows_portable
#include "rows_body.h"
