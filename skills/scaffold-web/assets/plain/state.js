// What the program knows. No page, no events: easy to test.
export function createState() {
  return { items: [] };
}

export function addItem(state, text) {
  const trimmed = text.trim();
  if (!trimmed) throw new Error("Write something first.");
  return { ...state, items: [...state.items, { text: trimmed, done: false }] };
}

export function toggleItem(state, index) {
  const items = state.items.map((item, at) => (at === index ? { ...item, done: !item.done } : item));
  return { ...state, items };
}

export function openCount(state) {
  return state.items.filter((item) => !item.done).length;
}
