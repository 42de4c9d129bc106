/* kernel-plain.wasm and kernel-relaxed.wasm: one export, `run`, that does a list of
   steps, so that a whole expert is one call from outside.

   docs/reference/wasm-kernels.md says what each step takes. The caller owns all memory
   from __heap_base on and lays it out. A step that would read or write outside the
   memory traps; nothing is kept from one call to the next. */

#include "../../c/elementary.h"
#include "float_product.h"
#include "integer_product.h"
#include "steps.h"

/* Refuses what block coding cannot have produced: a code of -128, a scale that is
   negative (but for -0) or no number. */
static enum status make_ready(const union step *s)
{
    const uint8_t *coded = s->prepare.coded;
    uint32_t n_cols = s->prepare.n_cols;
    struct ready *out = s->prepare.out;
    if (n_cols % CODING_BLOCK)
        return SHAPE_WRONG;
    for (uint32_t n = s->prepare.n; n; n--) {
        const float *scales = (const float *)(coded + n_cols);
        const float *end = scales + n_cols / 32;
        for (; scales < end; scales++, out++) {
            if (!(*scales >= 0.0f && *scales <= 0x1.FFFFFEp127f))
                return CODE_REFUSED;
            out->scale = *scales;
            out->half[0] = out->half[1] = 0;
            for (int i = 0; i < CODING_BLOCK; i++, coded++) {
                int code = (int8_t)*coded;
                if (code == -128)
                    return CODE_REFUSED;
                out->wide[i] = (int16_t)code;
                out->narrow[i] = (int8_t)code;
                out->half[i / 16] += code;
            }
            out->sum = out->half[0] + out->half[1];
        }
        coded = (const uint8_t *)end;
    }
    return OK;
}

static enum status multiply(const union step *s)
{
    int format = s->multiply.format;
    int is_float = format == F32 || format == F16 || format == BF16;
    const struct recipe *recipe = recipe_of(format);
    if (!is_float && !recipe)
        return FORMAT_UNSUPPORTED;
    uint32_t n_cols = s->multiply.n_cols, n_blocks = n_cols / 32;
    if (n_cols % 32 || (!is_float && n_blocks % recipe->groups))
        return SHAPE_WRONG;
    struct product p = {s->multiply.weights, s->multiply.n_rows, n_cols,
                        s->multiply.x, 0, s->multiply.y, s->multiply.y_stride};
    uint32_t x_bytes = n_blocks * (is_float ? 32 * 4 : sizeof(struct ready));
    for (uint32_t left = s->multiply.n; left; left -= p.n) {
        p.n = left < MAX_BATCH ? left : MAX_BATCH;
        if (is_float)
            multiply_floats(format, &p);
        else
            multiply_integers(recipe, &p);
        p.x += p.n * x_bytes;
        p.y += p.n * p.y_stride;
    }
    return OK;
}

static void add_bias(const union step *s)
{
    float *y = s->add_bias.y;
    for (uint32_t i = 0; i < s->add_bias.n; i++, y += s->add_bias.y_stride)
        for (uint32_t r = 0; r < s->add_bias.n_rows; r++)
            y[r] += s->add_bias.bias[r];
}

/* Both activations at one go: fl(up * fl(gate * sigmoid(z))). */
static enum status activate(const union step *s)
{
    uint32_t kind = s->activate.kind;
    float limit = s->activate.limit;
    if (kind > SWIGLU_OAI)
        return STEP_UNKNOWN;
    for (uint32_t i = 0; i < s->activate.n; i++) {
        float gate = s->activate.g[i], up = s->activate.u[i], z = gate;
        if (kind == SWIGLU_OAI) {
            gate = at_most(gate, limit);
            up = at_least(at_most(up, limit), -limit) + 1.0f;
            z = s->activate.alpha * gate;
        }
        s->activate.h[i] = gate * spec_sigmoid(z) * up;
    }
    return OK;
}

static enum status code_rows(const union step *s)
{
    const float *x = s->code.x;
    uint32_t n = s->code.n, n_cols = s->code.n_cols, q = s->code.q;
    if (n_cols % CODING_BLOCK || (q != ACTIVATION_Q && q != RESULT_Q))
        return SHAPE_WRONG;
    uint32_t width = q == ACTIVATION_Q ? 1 : 2;
    uint8_t *coded = s->code.coded;
    for (; n; n--) {
        float *scales = (float *)(coded + width * n_cols), *end = scales + n_cols / 32;
        for (; scales < end; scales++, x += CODING_BLOCK) {
            float codes[CODING_BLOCK];
            if (!all_finite(CODING_BLOCK, x))
                return NON_FINITE;
            *scales = code_block(x, (float)q, codes);
            for (int i = 0; i < CODING_BLOCK; i++, coded += width)
                if (width == 1)
                    *(int8_t *)coded = (int8_t)codes[i];
                else
                    *(int16_t *)coded = (int16_t)codes[i];
        }
        coded = (uint8_t *)end;
    }
    return OK;
}

static enum status do_step(const union step *s)
{
    switch (s->op) {
    case PREPARE:
        return make_ready(s);
    case MULTIPLY:
        return multiply(s);
    case ADD_BIAS:
        add_bias(s);
        return OK;
    case ACTIVATE:
        return activate(s);
    case CODE:
        return code_rows(s);
    case CHECK:
        return all_finite(s->check.n, s->check.x) ? OK : NON_FINITE;
    default:
        return STEP_UNKNOWN;
    }
}

/* Do n steps in order; returns 0, or the status of the first that failed. */
__attribute__((export_name("run"))) enum status run(const union step *steps, uint32_t n)
{
    enum status status = OK;
    for (; n && status == OK; n--, steps++)
        status = do_step(steps);
    return status;
}
