/** The Merkle-sum tree over leaves, ledger/merkle.py: nodes are {hash, sum}, sums BigInt.
 *
 *     leaf H(0 || leaf)    node H(1 || left || right || u64 sum left || u64 sum right) */
import { check, equal, layout } from "./bytes.js";
import { sha256 } from "./crypto.js";

const MAX_SUM_UC = 2n ** 63n - 1n;
const BLOCK = 256; // leaves between two marks
const INNER = layout("\x01", "left:32s right:32s sum_left:Q sum_right:Q");

/** The node of one leaf's bytes. */
export const leaf_node = (leaf, amount_uc) =>
  ({ hash: sha256([0], leaf), sum: BigInt(amount_uc) });

/** The parent of two nodes, or ProtocolError. */
export function join(left, right) {
  const sum = left.sum + right.sum;
  check(sum <= MAX_SUM_UC, "a sum that overflows");
  const inner = { left: left.hash, right: right.hash, sum_left: left.sum, sum_right: right.sum };
  return { hash: sha256(INNER.pack(inner)), sum };
}

/** Check that a node is leaf `index` of `size` under `root`, or throw ProtocolError. */
export function verify_inclusion(leaf, index, size, path, root) {
  check(index >= 0 && index < size, `leaf ${index} of a tree of ${size}`);
  let [at, last, node] = [index, size - 1, leaf];
  const climb = () => { [at, last] = [at >>> 1, last >>> 1]; };
  for (const sibling of path) {
    check(last, "a path longer than the tree is high");
    if (at & 1 || at === last) {
      node = join(sibling, node);
      while (!(at & 1) && at) climb();
    } else {
      node = join(node, sibling);
    }
    climb();
  }
  check(!last, "a path shorter than the tree is high");
  check(equal(node.hash, root.hash) && node.sum === root.sum, "another root or sum");
}

/** A growing tree that takes a late leaf among those whose nodes it keeps. */
export class MerkleSum {
  size = 0;
  #sum = 0n;
  #stack = []; // {node, n} of whole subtrees of n leaves, largest first
  #base = 0; // first leaf whose node is kept, a multiple of BLOCK
  #recent = [];
  #marks = []; // the stack at each block from #base on
  #window;

  /** Keep at least `window` nodes. */
  constructor(window = 16384) {
    this.#window = Math.max(window, BLOCK);
  }

  /** The node over all leaves. */
  root() {
    let root = null;
    for (const { node } of this.#stack.slice().reverse()) root = root ? join(node, root) : node;
    return root ?? { hash: sha256(), sum: 0n };
  }

  /** Add [index, leaf, amount], indices ascending, each before the leaf that is now there or
   * at the end. False, and no change, if the first place is kept no more. */
  insert(items) {
    const first = items.length ? items[0][0] : this.size;
    if (first < this.size && first < this.#base) return false;
    const sum = items.reduce((total, [, , amount]) => total + BigInt(amount), this.#sum);
    check(items.every(([, , amount]) => amount >= 0) && sum <= MAX_SUM_UC, "a sum that overflows");
    this.#sum = sum;
    const later = this.#cut(first);
    const start = this.size;
    let at = 0;
    for (const [index, leaf, amount] of items) {
      while (at < Math.min(index - start, later.length)) this.#push(later[at++]);
      this.#push(leaf_node(leaf, amount));
    }
    while (at < later.length) this.#push(later[at++]);
    return true;
  }

  /** Go back to the last mark at or before a leaf; return the nodes behind it. */
  #cut(first) {
    if (first >= this.size) return [];
    const block = Math.floor((first - this.#base) / BLOCK);
    this.#stack = this.#marks[block];
    this.size = this.#base + block * BLOCK;
    this.#marks.length = block;
    return this.#recent.splice(block * BLOCK);
  }

  #push(node) {
    if (this.size % BLOCK === 0) this.#mark();
    this.#recent.push(node);
    this.size += 1;
    let n = 1;
    while (this.#stack.at(-1)?.n === n) {
      node = join(this.#stack.pop().node, node);
      n *= 2;
    }
    this.#stack.push({ node, n });
  }

  #mark() {
    this.#marks.push(this.#stack.slice());
    if (this.#recent.length < this.#window + BLOCK) return;
    this.#recent.splice(0, BLOCK);
    this.#marks.shift();
    this.#base += BLOCK;
  }
}
