// node serve.mjs <bundle-dir> [port] [onnxruntime-web/dist]: the page, for this machine only.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [bundle, port = "8080", runtime] = process.argv.slice(2);
if (!bundle) {
  console.error("usage: node serve.mjs <bundle-dir> [port] [onnxruntime-web/dist]");
  process.exit(1);
}
const FOLDERS = {
  "": here,
  js: join(here, "..", "js"),
  model: bundle,
  ort: runtime ?? join(here, "node_modules", "onnxruntime-web", "dist"),
};
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".mjs": "text/javascript",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".wasm": "application/wasm",
  ".onnx": "application/octet-stream",
};

const server = createServer(async (request, response) => {
  const path = new URL(request.url, "http://localhost").pathname;
  // One folder and one file name: nothing else can be reached.
  const match = path.match(/^\/(?:(js|model|ort)\/)?([\w.-]*)$/);
  try {
    if (!match) throw new Error("no such path");
    const file = match[2] || "index.html";
    const type = file === "SHA256SUMS" ? "text/plain" : TYPES[extname(file)];
    if (!type) throw new Error("no such kind of file");
    const body = await readFile(join(FOLDERS[match[1] ?? ""], file));
    response.writeHead(200, { "content-type": type }).end(body);
  } catch {
    response.writeHead(404).end("not found");
  }
});
server.listen(Number(port), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/`);
});
