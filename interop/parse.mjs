// Parses a TLA+ module, and prints what the grammar does not accept: node parse.mjs FILE
import { readFileSync } from "node:fs";
import { Language, Parser } from "web-tree-sitter";

await Parser.init();
const parser = new Parser();
parser.setLanguage(await Language.load("node_modules/@tlaplus/tree-sitter-tlaplus/tree-sitter-tlaplus.wasm"));
const text = readFileSync(process.argv[2], "utf8");

function complain(node) {
  if (node.type === "ERROR" || node.isMissing) {
    const { row, column } = node.startPosition;
    console.log(`${row + 1}:${column + 1}: ${JSON.stringify(node.text.slice(0, 80))}`);
    process.exitCode = 1;
    return;
  }
  node.children.forEach(complain);
}
complain(parser.parse(text).rootNode);
