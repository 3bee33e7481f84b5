// The only file that knows the page. Text from the user goes in with textContent, never with innerHTML.
import { addItem, createState, openCount, toggleItem } from "./state.js";

const form = document.querySelector("form");
const list = document.querySelector("ul");
const status = document.querySelector("[role=status]");
let state = createState();

function update(next) {
  state = next;
  status.textContent = `${openCount(state)} open`;
  list.replaceChildren(...state.items.map(row));
}

function row(item, index) {
  const button = document.createElement("button");
  button.textContent = item.text;
  button.setAttribute("aria-pressed", String(item.done));
  button.addEventListener("click", () => update(toggleItem(state, index)));
  const line = document.createElement("li");
  line.append(button);
  return line;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  try {
    update(addItem(state, form.elements.text.value));
    form.reset();
  } catch (error) {
    status.textContent = error.message;
  }
});

update(state);
