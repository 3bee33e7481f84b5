import { beforeEach, expect, test } from "vitest";
import { addItem, createState, openCount, toggleItem } from "./state.js";
import { mount } from "./view.js";

test("an item is added and counted as open", () => {
  const state = addItem(createState(), " milk ");
  expect(state.items).toEqual([{ text: "milk", done: false }]);
  expect(openCount(toggleItem(state, 0))).toBe(0);
});

test("an empty item is refused", () => {
  expect(() => addItem(createState(), "  ")).toThrow("Write something");
});

beforeEach(() => {
  document.body.innerHTML = "<main id='app'></main>";
});

test("what is typed and added appears on the page", () => {
  const root = document.querySelector("#app");
  mount(root, createState());
  root.querySelector("input").value = "<b>milk</b>";
  root.querySelector("form").dispatchEvent(new Event("submit", { cancelable: true }));
  expect(root.querySelector("li button").textContent).toBe("<b>milk</b>");
  expect(root.querySelector("[role=status]").textContent).toBe("1 open");
});
