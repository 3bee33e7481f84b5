// State in, page out. Text from the user goes in with textContent, never with innerHTML.
import { addItem, openCount, toggleItem } from "./state.js";

export function mount(root, state) {
  root.innerHTML = `
    <h1>NAME</h1>
    <form><label>New item <input name="text" autocomplete="off" /></label><button>Add</button></form>
    <p role="status"></p>
    <ul></ul>`;
  const form = root.querySelector("form");
  const status = root.querySelector("[role=status]");

  function update(next) {
    state = next;
    status.textContent = `${openCount(state)} open`;
    root.querySelector("ul").replaceChildren(...state.items.map(row));
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
}
