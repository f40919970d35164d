// Embeddings from files that people have: numpy's .npy, JSON, a Kaldi vector (text or binary).

/** Read one embedding; resolves to { embedding, seconds }, seconds only if the file tells. */
export function parseEmbedding(bytes) {
  const head = String.fromCharCode(...bytes.subarray(0, 64));
  if (head.startsWith("\x93NUMPY")) return { embedding: parseNpy(bytes) };
  const binary = head.match(/^(?:\S+ )?\0B([FD])V \x04/);
  if (binary) return { embedding: parseKaldi(bytes, binary[0].length, binary[1]) };
  const text = new TextDecoder().decode(bytes).trim();
  if (text.startsWith("{")) {
    const { embedding, seconds } = JSON.parse(text);
    return { embedding: checked(embedding), seconds };
  }
  return { embedding: checked(numbersOf(text)) };
}

function numbersOf(text) {
  const inner = text.match(/\[([^\]]*)\]/)?.[1] ?? text;
  return inner.split(/[\s,]+/).filter(Boolean).map(Number);
}

function checked(values) {
  if (!Array.isArray(values) || !values.length || !values.every(Number.isFinite)) {
    throw new Error("not an embedding: expected numbers (npy, JSON, or a Kaldi vector)");
  }
  return values;
}

function parseNpy(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const wide = bytes[6] > 1;
  const start = (wide ? 12 : 10) + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = String.fromCharCode(...bytes.subarray(10, start));
  const kind = header.match(/'descr': '<(f[48])'/)?.[1];
  const shape = header.match(/'shape': \(([^)]*)\)/)?.[1].split(",").map(Number).filter(Boolean);
  if (!kind || !shape || Math.max(...shape) !== shape.reduce((a, b) => a * b, 1)) {
    throw new Error("npy file: expected one vector of float32 or float64");
  }
  return numbersAt(view, start, Math.max(...shape), kind === "f8");
}

function parseKaldi(bytes, start, kind) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return numbersAt(view, start + 4, view.getInt32(start, true), kind === "D");
}

function numbersAt(view, start, count, double) {
  const size = double ? 8 : 4;
  if (start + count * size > view.byteLength) throw new Error("the file ends inside the vector");
  return Array.from({ length: count }, (_, i) =>
    double ? view.getFloat64(start + 8 * i, true) : view.getFloat32(start + 4 * i, true),
  );
}
