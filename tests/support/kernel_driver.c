/* The kernels without Python: cases come from stdin, results go to stdout.

   For runs under sanitisers and on emulated processors; `kernel_driver.py` writes the
   cases. Little-endian throughout.

     stream   "P2PK", name of the set char[16] padded with zeros, then cases to the end
     case     u32 operation, mode, shift, n_numbers, n_buffers | i64 numbers[] | buffers
     buffer   i64 n_bytes, or -1 for none | u32 shift | bytes
     answer   u32 outcome, u32 mode_kept, u64 n_bytes | bytes

   Every buffer is copied to an allocation of its own that ends with it, `shift` bytes
   in: reading one byte too far is seen by a sanitiser, and so is an address that a type
   must not have. `--sets` prints the sets of this processor. What is no case ends the
   program with exit code 2 and a line. */

#include "kernel_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "float_mode.h"

#define PADDING 0xA5

void refuse(const char *what)
{
    fprintf(stderr, "kernel driver: %s\n", what);
    exit(2);
}

static void read_bytes(void *to, size_t n_bytes)
{
    if (fread(to, 1, n_bytes, stdin) != n_bytes)
        refuse("the input ends within a case");
}

static void write_bytes(const void *from, size_t n_bytes)
{
    if (n_bytes && fwrite(from, 1, n_bytes, stdout) != n_bytes)
        refuse("the output is closed");
}

static void allocate(struct buffer *buffer, size_t n_bytes, size_t shift)
{
    if (n_bytes > MAX_BYTES || shift > 64)
        refuse("a buffer is too long");
    buffer->block = malloc(n_bytes + shift ? n_bytes + shift : 1);
    if (!buffer->block)
        refuse("no memory");
    buffer->at = buffer->block + shift;
    buffer->n_bytes = n_bytes;
}

static void read_buffer(struct buffer *buffer)
{
    int64_t n_bytes;
    uint32_t shift;
    read_bytes(&n_bytes, sizeof n_bytes);
    read_bytes(&shift, sizeof shift);
    *buffer = (struct buffer){0};
    if (n_bytes == -1)
        return;
    allocate(buffer, (uint64_t)n_bytes > MAX_BYTES ? MAX_BYTES + 1 : (size_t)n_bytes, shift);
    read_bytes(buffer->at, buffer->n_bytes);
}

/* Read a case; 0 at the end of the input. */
static int read_record(struct record *record)
{
    uint32_t head[5];
    size_t n = fread(head, 1, sizeof head, stdin);
    if (n == 0 && feof(stdin))
        return 0;
    if (n != sizeof head)
        refuse("the input ends within a case");
    *record = (struct record){.operation = head[0], .mode = head[1], .shift = head[2],
                              .n_numbers = head[3], .n_buffers = head[4]};
    if (record->operation >= N_OPERATIONS)
        refuse("an unknown operation");
    if (record->n_numbers > MAX_NUMBERS || record->n_buffers > MAX_BUFFERS)
        refuse("too many numbers or buffers");
    read_bytes(record->numbers, record->n_numbers * sizeof record->numbers[0]);
    for (uint32_t i = 0; i < record->n_buffers; i++)
        read_buffer(record->buffers + i);
    return 1;
}

size_t take_size(struct record *record)
{
    if (record->n_taken_numbers == record->n_numbers)
        refuse("a number is missing");
    int64_t number = record->numbers[record->n_taken_numbers++];
    if (number < 0 || number > MAX_SIDE)
        refuse("a size is out of range");
    return (size_t)number;
}

float take_float(struct record *record)
{
    float value;
    if (record->n_taken_numbers == record->n_numbers)
        refuse("a number is missing");
    uint32_t bits = (uint32_t)record->numbers[record->n_taken_numbers++];
    memcpy(&value, &bits, sizeof value);
    return value;
}

void *take(struct record *record, size_t n_bytes, size_t alignment, int is_needed)
{
    if (record->n_taken_buffers == record->n_buffers)
        refuse("a buffer is missing");
    struct buffer *buffer = record->buffers + record->n_taken_buffers++;
    if (!buffer->at && !is_needed)
        return NULL;
    if (!buffer->at || buffer->n_bytes != n_bytes)
        refuse("a buffer does not fit the sizes");
    if ((uintptr_t)buffer->at % alignment)
        refuse("a buffer is not aligned");
    return buffer->at;
}

void *make(struct record *record, struct buffer *part, size_t n_bytes)
{
    if (record->shift % 4)
        refuse("a result is not aligned");
    allocate(part, n_bytes, record->shift);
    memset(part->at, PADDING, n_bytes);
    return part->at;
}

size_t times(size_t a, size_t b)
{
    if (b && a > MAX_BYTES / b)
        refuse("sizes beyond all reason");
    return a * b;
}

static struct float_mode outer;

#if defined(__SSE2__)

/* Mode 1 flushes subnormals, in and out; 2, 3, 4 round down, up, towards zero. */
static const unsigned modes[5] = {0x1f80, 0x9fc0, 0x3f80, 0x5f80, 0x7f80};

void enter_mode(const struct record *record)
{
    if (record->mode > 4)
        refuse("an unknown mode");
    _mm_setcsr(modes[record->mode]);
    outer = float_mode_enter();
}

uint32_t leave_mode(const struct record *record)
{
    float_mode_leave(outer);
    uint32_t kept = _mm_getcsr() == modes[record->mode];
    _mm_setcsr(modes[0]);
    return kept;
}

#elif defined(__aarch64__)

static const unsigned long long modes[5] = {0, 1u << 24, 2u << 22, 1u << 22, 3u << 22};

void enter_mode(const struct record *record)
{
    if (record->mode > 4)
        refuse("an unknown mode");
    __asm__ volatile("msr fpsr, %0" : : "r"(0ull) : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"(modes[record->mode]) : "memory");
    outer = float_mode_enter();
}

uint32_t leave_mode(const struct record *record)
{
    unsigned long long mode, flags;
    float_mode_leave(outer);
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("mrs %0, fpsr" : "=r"(flags));
    __asm__ volatile("msr fpcr, %0" : : "r"(0ull) : "memory");
    return mode == modes[record->mode] && !flags;
}

#else

void enter_mode(const struct record *record)
{
    if (record->mode)
        refuse("an unknown mode");
    outer = float_mode_enter();
}

uint32_t leave_mode(const struct record *record)
{
    (void)record;
    float_mode_leave(outer);
    return 1;
}

#endif

static void write_answer(const struct answer *answer)
{
    uint64_t n_bytes = answer->parts[0].n_bytes + answer->parts[1].n_bytes;
    write_bytes(&answer->outcome, sizeof answer->outcome);
    write_bytes(&answer->mode_kept, sizeof answer->mode_kept);
    write_bytes(&n_bytes, sizeof n_bytes);
    for (int i = 0; i < 2; i++)
        write_bytes(answer->parts[i].at, answer->parts[i].n_bytes);
}

static void run(enum cpu_set set, struct record *record)
{
    struct answer answer = {.parts = {{0}}};
    if (record->operation < RMS_NORM)
        run_kernel(set, record, &answer);
    else
        run_rows(set, record, &answer);
    write_answer(&answer);
    for (int i = 0; i < 2; i++)
        free(answer.parts[i].block);
    for (uint32_t i = 0; i < record->n_buffers; i++)
        free(record->buffers[i].block);
}

int main(int n_arguments, char **arguments)
{
    char head[20];
    struct record record;
    if (n_arguments == 2 && !strcmp(arguments[1], "--sets")) {
        for (int set = 0; set < CPU_N_SETS; set++)
            if (cpu_has((enum cpu_set)set))
                puts(cpu_name((enum cpu_set)set));
        return 0;
    }
    read_bytes(head, sizeof head);
    if (memcmp(head, "P2PK", 4) || head[19])
        refuse("no stream of cases");
    enum cpu_set set = cpu_by_name(head + 4);
    if (set == CPU_N_SETS)
        refuse("no such instruction set here");
    while (read_record(&record))
        run(set, &record);
    return fflush(stdout) ? 2 : 0;
}
