// The page: two embeddings, the costs, the answer. The scoring is in js/dcaplda.mjs.

import * as ort from "/ort/ort.wasm.min.mjs";
import { Backend } from "/js/dcaplda.mjs";
import { parseEmbedding } from "/js/embedding_file.mjs";

const $ = (selector) => document.querySelector(selector);
const sides = { enroll: {}, test: {} };
let backend;
let asked = 0;

ort.env.wasm.wasmPaths = "/ort/";
ort.env.wasm.numThreads = 1;

async function start() {
  const read = async (name) => {
    const response = await fetch(`/model/${name}`);
    if (!response.ok) throw new Error(`model/${name}: ${response.status} ${response.statusText}`);
    return new Uint8Array(await response.arrayBuffer());
  };
  backend = await Backend.load(ort, read);
  const { variant, embedding_dim: dim, familiarity } = backend.info;
  const told = familiarity ? "" : " It does not tell what it was trained on, so it cannot warn.";
  $("#model").textContent = `Model ${variant}, embeddings of ${dim} values.${told}`;
  document.body.dataset.ready = "true";
}

async function take(name, file) {
  const box = $(`#${name}`);
  try {
    const found = parseEmbedding(new Uint8Array(await file.arrayBuffer()));
    sides[name] = { embedding: found.embedding };
    box.querySelector("span").textContent = `${file.name}: ${found.embedding.length} values`;
    if (found.seconds !== undefined) box.querySelector(".seconds").value = found.seconds;
    await answer();
  } catch (error) {
    sides[name] = {};
    box.querySelector("span").textContent = file.name;
    show({ error: `${file.name}: ${error.message}` });
  }
}

async function answer() {
  const mine = ++asked;
  if (!backend || !sides.enroll.embedding || !sides.test.embedding) return;
  const given = (name) => ({
    embedding: sides[name].embedding,
    seconds: $(`#${name} .seconds`).valueAsNumber,
  });
  const number = (id) => $(`#${id}`).valueAsNumber;
  try {
    const options = {
      prior: number("prior"),
      costMiss: number("cost-miss"),
      costFa: number("cost-fa"),
    };
    const found = await backend.verify(given("enroll"), given("test"), options);
    if (mine === asked) show(found); // a later question has its own answer
  } catch (error) {
    if (mine === asked) show({ error: error.message });
  }
}

function show({ error, llr, threshold, posterior, accept, warnings = [] }) {
  const box = $("#answer");
  const text = (value, digits) => (error ? "–" : value.toFixed(digits));
  box.toggleAttribute("data-error", Boolean(error));
  if (error) delete box.dataset.accept;
  else box.dataset.accept = accept;
  $("#decision").textContent = error ?? (accept ? "Accept: same speaker" : "Reject");
  $("#llr").textContent = text(llr, 5);
  $("#threshold").textContent = text(threshold, 5);
  $("#posterior").textContent = text(posterior, 5);
  $("#warnings").replaceChildren(
    ...warnings.map((line) => Object.assign(document.createElement("li"), { textContent: line })),
  );
}

for (const name of Object.keys(sides)) {
  const drop = $(`#${name} .drop`);
  drop.querySelector("input").addEventListener("change", (event) => {
    if (event.target.files.length) take(name, event.target.files[0]);
  });
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) take(name, event.dataTransfer.files[0]);
  });
}
for (const input of document.querySelectorAll("input[type=number]")) {
  input.addEventListener("input", answer);
}
$("form").addEventListener("submit", (event) => event.preventDefault());
start().catch((error) => {
  $("#model").textContent = `The model cannot be loaded: ${error.message}`;
});
