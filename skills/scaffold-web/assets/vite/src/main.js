// The only file that knows the page: it puts the parts together.
import { createState } from "./state.js";
import { mount } from "./view.js";

mount(document.querySelector("#app"), createState());
