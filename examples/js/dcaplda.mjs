// Scoring with a dcaplda bundle in JavaScript: the same graphs, through any onnxruntime.
//
// `ort` is onnxruntime-node or onnxruntime-web; `read(name)` resolves to the bytes of a file of
// the bundle. The arithmetic is in the graphs; here are only checks, the decision, the warnings.

const FORMAT = "dcaplda-bundle";
const FORMAT_VERSION = 3;

/** An exported model. Load it once, use it for as many verifications as you like. */
export class Backend {
  constructor(ort, info, sessions) {
    this.ort = ort;
    this.info = info;
    this.sessions = sessions;
  }

  /** Open a bundle; `options` go to onnxruntime's InferenceSession.create. */
  static async load(ort, read, options = {}) {
    const manifest = await read("model.json");
    const info = JSON.parse(new TextDecoder().decode(manifest));
    if (info.format !== FORMAT) throw new Error("model.json: not the manifest of a dcaplda model");
    if (info.format_version > FORMAT_VERSION) {
      throw new Error(`model.json: format version ${info.format_version} is newer than this example`);
    }
    // Bundles of version 1 list no hash of model.json.
    if (info.format_version > 1) await checkManifest(manifest, await read("SHA256SUMS"));
    const sessions = {};
    for (const name of ["voiceprint", "pairs"]) {
      const bytes = await read(info.graphs[name].file);
      await checkHash(bytes, info.graphs[name]);
      // Level 3: that an input may be left out, in older bundles, is no reason for a warning.
      const settings = { logSeverityLevel: 3, ...options };
      sessions[name] = await ort.InferenceSession.create(bytes, settings);
    }
    return new Backend(ort, info, sessions);
  }

  /** The voiceprint of one embedding (numbers) with its seconds of speech. */
  async voiceprint(embedding, seconds) {
    const values = Float32Array.from(embedding);
    const dim = this.info.embedding_dim;
    if (values.length !== dim) {
      throw new Error(`embedding: ${values.length} values, the model takes ${dim}`);
    }
    if (!values.every(Number.isFinite)) throw new Error("embedding: a value is not a finite number");
    if (values.every((value) => value === 0)) throw new Error("embedding: all values are zero");
    if (this.info.uses_durations && !(seconds > 0 && Number.isFinite(seconds))) {
      throw new Error("seconds of speech: expected a number above 0");
    }
    const inputs = { embeddings: this.tensor(values, [1, dim]) };
    inputs.durations = this.tensor([this.info.uses_durations ? seconds : 1], [1]);
    for (const name of this.info.voiceprint_inputs) inputs[name] = this.tensor([1], [1]);
    const made = await this.run("voiceprint", inputs);
    if (!made.every(Number.isFinite)) throw new Error("embedding: gives no finite voiceprint");
    return made;
  }

  /** LLR of two voiceprints. */
  async compare(enroll, test) {
    const shape = [1, this.info.voiceprint_dim];
    const inputs = { enroll: this.tensor(enroll, shape), test: this.tensor(test, shape) };
    return (await this.run("pairs", inputs))[0];
  }

  /**
   * Is `test` the speaker of `enroll`? Both are { embedding, seconds }.
   * Returns { llr, posterior, threshold, accept, warnings }.
   */
  async verify(enroll, test, { prior, costMiss = 1, costFa = 1 }) {
    const bar = threshold(prior, costMiss, costFa);
    const left = await this.voiceprint(enroll.embedding, enroll.seconds);
    const right = await this.voiceprint(test.embedding, test.seconds);
    const llr = await this.compare(left, right);
    return {
      llr,
      posterior: 1 / (1 + Math.exp(-(llr + Math.log(prior / (1 - prior))))),
      threshold: bar,
      accept: llr >= bar,
      warnings: [
        ...this.warnings(enroll, left, "enrolment"),
        ...this.warnings(test, right, "test"),
      ],
    };
  }

  /** Where an utterance is unlike what training saw, as far as model.json tells. */
  warnings({ embedding, seconds }, voiceprint, side) {
    const known = this.info.familiarity ?? {};
    const found = [];
    if (known.seconds && seconds && outside(seconds, known.seconds)) {
      const { min, max } = known.seconds;
      found.push(
        `${side}: duration ${seconds.toFixed(1)} s, ` +
          `trained on ${min.toFixed(1)}-${max.toFixed(1)} s`,
      );
    }
    const length = Math.hypot(...embedding);
    if (known.norm && outside(length, known.norm)) {
      const [low, high] = [known.norm.min, known.norm.max].map((x) => x.toFixed(2));
      found.push(
        `${side}: embedding of length ${length.toFixed(2)}, ` +
          `in training 99.9% had ${low}-${high}`,
      );
    }
    if (known.side_information) {
      const distance = mahalanobis(voiceprint, known.side_information);
      const limit = known.side_information.distance_p999;
      if (!(distance <= limit)) {
        found.push(
          `${side}: side-information at distance ${distance.toFixed(1)}, ` +
            `in training 99.9% were within ${limit.toFixed(1)}`,
        );
      }
    }
    return found;
  }

  tensor(values, shape) {
    return new this.ort.Tensor("float32", Float32Array.from(values), shape);
  }

  async run(graph, inputs) {
    const session = this.sessions[graph];
    // A model that does not use durations has no such input in all of its graphs.
    const taken = Object.entries(inputs).filter(([name]) => session.inputNames.includes(name));
    const output = await session.run(Object.fromEntries(taken));
    return output[session.outputNames[0]].data;
  }
}

/** The LLR from which on accepting costs less than rejecting. */
export function threshold(prior, costMiss = 1, costFa = 1) {
  if (!(prior > 0 && prior < 1)) throw new Error("prior: expected a number between 0 and 1");
  if (!(costMiss > 0 && costFa > 0)) throw new Error("costs: expected numbers above 0");
  return Math.log(costFa / costMiss) - Math.log(prior / (1 - prior));
}

function outside(value, { min, max }) {
  return value < min || value > max;
}

function mahalanobis(voiceprint, { columns, mean, precision }) {
  const centred = mean.map((value, i) => voiceprint[columns[0] + i] - value);
  let total = 0;
  precision.forEach((row, i) => row.forEach((value, j) => (total += centred[i] * value * centred[j])));
  return Math.sqrt(Math.max(total, 0));
}

async function checkManifest(bytes, sums) {
  const lines = new TextDecoder().decode(sums).split("\n");
  const line = lines.find((text) => text.endsWith("  model.json")) ?? "";
  await checkHash(bytes, { file: "model.json", sha256: line.split(" ")[0] });
}

async function checkHash(bytes, { file, sha256 }) {
  // Browsers have this only for pages from https or localhost.
  if (!globalThis.crypto?.subtle) return;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const found = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== sha256) throw new Error(`${file}: altered or incomplete; copy the model again`);
}
