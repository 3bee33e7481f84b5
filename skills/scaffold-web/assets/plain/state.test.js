import assert from "node:assert/strict";
import { test } from "node:test";
import { addItem, createState, openCount, toggleItem } from "./state.js";

test("an item is added and counted as open", () => {
  const state = addItem(createState(), " milk ");
  assert.deepEqual(state.items, [{ text: "milk", done: false }]);
  assert.equal(openCount(toggleItem(state, 0)), 0);
});

test("an empty item is refused", () => {
  assert.throws(() => addItem(createState(), "  "), /Write something/);
});
