/**
 * How much memory a page takes, and the note by which it knows how the last run ended.
 *
 * A page that takes too much is ended without a word. So a run notes that it began and,
 * once it is hidden or stopped, that it ended. Where that is missing the cap is halved.
 * A run that ends well takes one halving back. Pure. Source: design/07.
 */
const MIB = 1 << 20;
const MIB_AND_WORKERS = { ios: [256, 2], android: [512, 4], desktop: [1024, 4] };

/** {platform, n_workers, worker_bytes}; tablets that call themselves Mac have touch. */
export function caps({ agent, n_touch = 0, n_cores = 1 }, n_halvings = 0) {
  const is_ios = /iP(hone|ad|od)/.test(agent) || (n_touch > 1 && /Mac/.test(agent));
  const platform = is_ios ? "ios" : /Android/.test(agent) ? "android" : "desktop";
  const [mib, most] = MIB_AND_WORKERS[platform];
  const n_workers = Math.max(1, Math.min(n_cores >> 1, most));
  return { platform, n_workers, worker_bytes: (mib * MIB) / n_workers / 2 ** n_halvings };
}

const read = (note) => /^([0-3])( runs)?$/.exec(note) ?? [, 0];

/** [n_halvings, the note to keep] of a run, from the last note, null for none. */
export function began(note) {
  const [, n, runs] = read(note);
  const n_halvings = Math.min(3, Number(n) + (runs ? 1 : 0));
  return [n_halvings, `${n_halvings} runs`];
}

/** The note to keep once a run has ended well. */
export const ended = (note) => `${Math.max(0, read(note)[1] - 1)}`;
