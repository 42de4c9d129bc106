/* A case as the driver reads it: numbers and buffers, each with a place of its own. */

#ifndef P2PMOE_KERNEL_DRIVER_H
#define P2PMOE_KERNEL_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "cpu.h"

#define MAX_NUMBERS 32
#define MAX_BUFFERS 12
#define MAX_SIDE ((int64_t)1 << 20)
#define MAX_BYTES ((size_t)1 << 28)

/* Bytes exactly as long as what holds them, `shift` bytes into an allocation. */
struct buffer {
    uint8_t *block, *at; /* NULL for a buffer that is not there */
    size_t n_bytes;
};

enum operation {
    PRODUCT, EXPERT, CODE_I8, CODE_I16, ROUND, ACTIVATE,
    RMS_NORM, TURN, DOT_SCORES, ATTEND, LANE_PRODUCT, CHOOSE, WEIGHTED_SUM,
    N_OPERATIONS
};

struct answer {
    struct buffer parts[2];
    uint32_t outcome;
    uint32_t mode_kept;
};

struct record {
    uint32_t operation, mode, shift, n_numbers, n_buffers;
    int64_t numbers[MAX_NUMBERS];
    struct buffer buffers[MAX_BUFFERS];
    uint32_t n_taken_numbers, n_taken_buffers;
};

/* All of these end the program with exit code 2 and a line if the input is wrong. */
_Noreturn void refuse(const char *what);
size_t take_size(struct record *record); /* the next number, 0 to MAX_SIDE */
float take_float(struct record *record); /* the next number, the bits of a float */
/* The next buffer, of exactly so many bytes; NULL if it is not there and need not be. */
void *take(struct record *record, size_t n_bytes, size_t alignment, int is_needed);
/* Room for a result, filled with 0xA5, `shift` bytes into its allocation. */
void *make(struct record *record, struct buffer *part, size_t n_bytes);
size_t times(size_t a, size_t b); /* refuses what exceeds MAX_BYTES */

/* Set the record's float mode, then the specification's; back, and say whether the
   first one was as it had been set. */
void enter_mode(const struct record *record);
uint32_t leave_mode(const struct record *record);

void run_kernel(enum cpu_set set, struct record *record, struct answer *answer);
void run_rows(enum cpu_set set, struct record *record, struct answer *answer);

#endif
