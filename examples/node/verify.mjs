// node verify.mjs <bundle-dir> <enroll-file> <test-file> [--name=value ...]
//
// Prints the verification as one line of JSON. Embeddings are .npy, JSON or Kaldi vectors;
// --enroll-seconds and --test-seconds tell the seconds of speech where the file does not.
// --runtime=node (default where it can be had) or web chooses the onnxruntime.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Backend } from "../js/dcaplda.mjs";
import { parseEmbedding } from "../js/embedding_file.mjs";

const words = process.argv.slice(2);
const options = Object.fromEntries(
  words.filter((w) => w.startsWith("--")).map((w) => w.slice(2).split("=", 2)),
);
const [directory, enrollFile, testFile] = words.filter((w) => !w.startsWith("--"));

async function runtime(name) {
  if (name !== "web") {
    try {
      return await import("onnxruntime-node");
    } catch (error) {
      if (name === "node") throw error;
      console.error("onnxruntime-node cannot be had; using onnxruntime-web");
    }
  }
  const ort = await import("onnxruntime-web");
  ort.env.wasm.numThreads = 1;
  return ort;
}

async function side(file, seconds) {
  const found = parseEmbedding(await readFile(file));
  return { ...found, seconds: seconds === undefined ? found.seconds : Number(seconds) };
}

try {
  if (!testFile) throw new Error("usage: node verify.mjs <bundle-dir> <enroll> <test> [--prior=]");
  const module = await runtime(options.runtime);
  const ort = module.default?.InferenceSession ? module.default : module;
  const backend = await Backend.load(ort, (name) => readFile(join(directory, name)));
  const answer = await backend.verify(
    await side(enrollFile, options["enroll-seconds"]),
    await side(testFile, options["test-seconds"]),
    {
      prior: Number(options.prior ?? 0.01),
      costMiss: Number(options["cost-miss"] ?? 1),
      costFa: Number(options["cost-fa"] ?? 1),
    },
  );
  console.log(JSON.stringify(answer));
} catch (error) {
  console.error(`verify: ${error.message}`);
  process.exitCode = 1;
}
