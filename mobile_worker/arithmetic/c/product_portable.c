/* The products in plain C: a row's unit is unpacked, then met by each row of input. */

#include <string.h>

#include "formats.h"
#include "kernel.h"

#define BATCH 64 /* rows of input that share an unpacked unit */

static inline void widen_halves(const uint8_t *from, float *to)
{
    for (int i = 0; i < 8; i++)
        to[i] = f16_to_f32(load_u16(from + 2 * i));
}

static int32_t dot(const int8_t *codes, const int8_t *x, int n)
{
    int32_t sum = 0;
    for (int k = 0; k < n; k++)
        sum += (int16_t)(codes[k] * x[k]);
    return sum;
}

/* acc + the blocks of a unit times those of one row of input that begin at `at`. */
static float add_unit(struct layout layout, const struct unit *unit,
                      const struct input *x, size_t at, float acc)
{
    for (int j = 0; j < layout.values / layout.width; j++, at += layout.width) {
        const int32_t *sums = x->sums + at / 16;
        float scale = x->scales[at / 32];
        int32_t product = dot(unit->codes + j * layout.width, x->codes + at, layout.width);
        acc = acc + (float)product * (unit->s[j] * scale);
        if (layout.has_min) {
            int32_t sum = layout.width == 16 ? sums[0] : sums[0] + sums[1];
            acc = acc - (float)sum * (unit->m[j] * scale);
        }
    }
    return acc;
}

static void integer_product(int format, const struct matrix *w, const struct input *x,
                            float *out, size_t stride)
{
    struct layout layout = layout_of(format);
    size_t n_units = w->n_cols / layout.values;
    struct unit unit;
    float acc[BATCH];
    for (size_t r = 0; r < w->n_rows; r++)
        for (size_t first = 0; first < x->n; first += BATCH) {
            size_t n = x->n - first < BATCH ? x->n - first : BATCH;
            memset(acc, 0, sizeof acc);
            for (size_t b = 0; b < n_units; b++) {
                unpack(format, w->raw + (r * n_units + b) * layout.bytes, &unit);
                for (size_t i = 0; i < n; i++)
                    acc[i] = add_unit(layout, &unit, x,
                                      (first + i) * x->n_cols + b * layout.values, acc[i]);
            }
            for (size_t i = 0; i < n; i++)
                out[(first + i) * stride + r] = w->bias ? acc[i] + w->bias[r] : acc[i];
        }
}

#include "set_body.h"

KERNEL_SET(kernel_portable, "portable");
