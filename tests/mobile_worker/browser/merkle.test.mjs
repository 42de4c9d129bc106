import assert from "node:assert/strict";
import test from "node:test";
import { from_hex, to_hex, utf8 } from "../../../mobile_worker/browser/bytes.js";
import { MerkleSum, join, leaf_node, verify_inclusion }
  from "../../../mobile_worker/browser/merkle.js";
import { parse_leaf } from "../../../mobile_worker/browser/leaf.js";
import { parse_voucher } from "../../../mobile_worker/browser/voucher.js";
import { chance, refused, vectors } from "./support.mjs";

const golden = vectors("ledger/golden.json");
const leaf = (n) => [utf8(`leaf ${n}`), n * n];

/** The root by its definition: split at the largest power of two below the size. */
function root_of(nodes) {
  if (nodes.length === 1) return nodes[0];
  const half = 2 ** Math.ceil(Math.log2(nodes.length) - 1);
  return join(root_of(nodes.slice(0, half)), root_of(nodes.slice(half)));
}

function tree_of(numbers, window) {
  const tree = new MerkleSum(window);
  assert.ok(tree.insert(numbers.map((n, i) => [i, ...leaf(n)])));
  return tree;
}

const shown = ({ hash, sum }) => [to_hex(hash), String(sum)];

test("roots and sums are Python's at every size", async () => {
  const tree = new MerkleSum();
  for (const { size, root, sum_uc } of golden.trees) {
    const { size: before } = tree;
    const numbers = Array.from({ length: size - before }, (_, i) => before + i);
    assert.ok(tree.insert(numbers.map((n) => [n, ...leaf(n)])));
    assert.equal(tree.size, size);
    assert.deepEqual(shown(tree.root()), [root, sum_uc]);
  }
});

test("late leaves give the tree that leaves in order give", async () => {
  const draw = chance(14);
  for (let round = 0; round < 8; round++) {
    const tree = tree_of([], 256);
    const numbers = [];
    for (let step = 0; step < 8; step++) {
      const items = Array.from({ length: 1 + draw(120) }, () => numbers.length && draw(3)
        ? numbers.length - draw(Math.min(numbers.length, 200)) : numbers.length).sort((a, b) => a - b);
      const named = items.map((at) => [at, draw(10000)]);
      assert.ok(tree.insert(named.map(([at, n]) => [at, ...leaf(n)])));
      for (const [at, n] of named.slice().reverse()) numbers.splice(at, 0, n);
    }
    const nodes = numbers.map((n) => leaf_node(...leaf(n)));
    assert.deepEqual(shown(tree.root()), shown(root_of(nodes)));
    assert.equal(tree.size, numbers.length);
  }
});

test("a leaf too far back changes nothing", async () => {
  const tree = tree_of(Array.from({ length: 1000 }, (_, i) => i), 256);
  const before = shown(tree.root());
  assert.equal(tree.insert([[3, ...leaf(1)]]), false);
  assert.deepEqual([tree.size, shown(tree.root())], [1000, before]);
  assert.ok(tree.insert([[900, ...leaf(1)]]));
});

test("sums that overflow or are negative change nothing", async () => {
  const tree = tree_of([3]);
  for (const amount of [2n ** 63n - 1n, -1]) await refused(() => tree.insert([[1, utf8("x"), amount]]));
  assert.equal(tree.size, 1);
  assert.ok(tree.insert([[1, utf8("x"), 2n ** 63n - 10n]]));
  assert.equal(tree.root().sum, 2n ** 63n - 1n);
});

test("the path of the golden receipt leads to the voucher's root, and no other does", async () => {
  const { receipt } = golden;
  const raw = from_hex(receipt.leaf);
  const { amount_uc, serving } = parse_leaf(raw);
  const { ranges, leaves, root, amount_uc: sum } = parse_voucher(from_hex(receipt.voucher.bytes));
  const accepted = ranges.flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, i) => first + i));
  const index = accepted.indexOf(serving);
  const path = receipt.proofs.sum_tree.map(({ hash, sum_uc }) =>
    ({ hash: from_hex(hash), sum: BigInt(sum_uc) }));
  const node = leaf_node(raw, amount_uc);
  const wanted = { hash: root, sum: BigInt(sum) };
  verify_inclusion(node, index, leaves, path, wanted);
  await refused(() => verify_inclusion(node, index + 1, leaves, path, wanted));
  await refused(() => verify_inclusion(node, leaves, leaves, path, wanted));
  await refused(() => verify_inclusion(node, index, leaves, path.slice(1), wanted));
  await refused(() => verify_inclusion(node, index, leaves, [...path, node], wanted));
  await refused(() => verify_inclusion(node, index, leaves, path, { ...wanted, sum: wanted.sum + 1n }));
  await refused(() => verify_inclusion(node, index, leaves,
    path.map((step, i) => (i ? step : { ...step, sum: step.sum + 1n })), wanted));
});
