export interface BegunBody {
  /** Its first character that is no white space; "" for one without any. */
  readonly first: string;
  /** From its beginning. */
  readonly body: AsyncGenerator<Uint8Array, void, void>;
  /** Leaves a body that nobody reads. */
  readonly abandon: () => Promise<void>;
}

/** Reads so far that it shows what a body is. */
export async function begunBody(body: AsyncIterable<Uint8Array>): Promise<BegunBody> {
  const iterator = body[Symbol.asyncIterator]();
  const head: Uint8Array[] = [];
  let first = "";
  while (first === "") {
    const result = await iterator.next();
    if (result.done === true) break;
    head.push(result.value);
    first = firstCharacter(Buffer.concat(head));
  }
  const abandon = async () => void (await iterator.return?.());
  return { first, body: resumed(head, iterator), abandon };
}

/** All of it; the one who gives it bounds it. */
export async function wholeText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return new TextDecoder().decode(Buffer.concat(chunks));
}

async function* resumed(
  head: readonly Uint8Array[],
  iterator: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  try {
    yield* head;
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next())
      yield next.value;
  } finally {
    await iterator.return?.();
  }
}

/** Of what is ASCII where it matters; a byte order mark is passed over. */
function firstCharacter(bytes: Buffer): string {
  return bytes
    .toString("latin1")
    .replace(/^(?:\xEF\xBB\xBF|\xEF\xBB?$)?[\s]*/, "")
    .slice(0, 1);
}
