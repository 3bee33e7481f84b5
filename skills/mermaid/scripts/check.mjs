// check.mjs FILE...: parses every Mermaid diagram of Markdown and .mmd files with the real package.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

// The packages are looked for below NODE_PATH and where the command is run: none lie beside this file.
const places = [...(process.env.NODE_PATH ?? "").split(path.delimiter).filter(Boolean), process.cwd()];
const require = createRequire(path.join(process.cwd(), "x.js"));
async function load(name) {
  try {
    return await import(pathToFileURL(require.resolve(name, { paths: places })).href);
  } catch (error) {
    console.error(`check.mjs: cannot load ${name} (${error.code ?? error.message}).`);
    console.error("Install it with: npm install --prefix DIR mermaid happy-dom@20, and set NODE_PATH=DIR/node_modules.");
    process.exit(2);
  }
}

const { Window } = await load("happy-dom"); // Mermaid cleans labels with the page's own parser; here there is no page
const page = new Window();
Object.assign(globalThis, { window: page, document: page.document });
const { default: mermaid } = await load("mermaid");

function* diagrams(file) {
  const text = readFileSync(file, "utf8").replaceAll("\r\n", "\n");
  if (/\.(mmd|mermaid)$/.test(file)) {
    yield { line: 1, code: text };
    return;
  }
  for (const found of text.matchAll(/^([ \t]*)(`{3,}|~{3,})[ \t]*mermaid[^\n]*\n([\s\S]*?)^\1\2/gm)) {
    yield { line: text.slice(0, found.index).split("\n").length + 1, code: found[3] };
  }
}

// Mermaid counts lines from the start of the diagram; people count them in the file.
const placed = (message, first) => message.replace(/on line (\d+)/, (_, line) => `on line ${first + Number(line) - 1}`);

let count = 0;
let bad = 0;
for (const file of process.argv.slice(2)) {
  for (const { line, code } of diagrams(file)) {
    count += 1;
    try {
      const { diagramType } = await mermaid.parse(code);
      console.log(`${file}:${line}: good (${diagramType})`);
    } catch (error) {
      bad += 1;
      console.log(`${file}:${line}: ${placed(error.message, line)}`);
    }
  }
}
console.log(count ? `${count} diagrams, ${bad} bad` : "no diagrams found");
process.exit(bad || !count ? 1 : 0);
