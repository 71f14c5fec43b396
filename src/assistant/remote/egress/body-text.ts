type BodyIterator = AsyncIterableIterator<Uint8Array, void, void> &
  Required<Pick<AsyncIterator<Uint8Array, void, void>, "return">>;

export interface PeekedBody {
  /** The first character of the body that is not white space; "" if there is none. */
  readonly first: string;
  /** The body without its leading white space. */
  readonly body: BodyIterator;
  /** Ends the stream without reading the rest of the body. */
  readonly abandon: () => Promise<void>;
}

/**
 * Reads the start of a body to determine its format. Skips leading white space, which some providers send while the
 * model computes.
 */
export async function peekBody(body: AsyncIterable<Uint8Array>): Promise<PeekedBody> {
  const iterator = body[Symbol.asyncIterator]();
  let head: Buffer = Buffer.alloc(0);
  while (head.length === 0 || isPartOfMark(head)) {
    const result = await iterator.next();
    if (result.done === true) break;
    head = withoutBlanks(Buffer.concat([head, result.value]));
  }
  const abandon = async () => void (await iterator.return?.());
  return { first: head.toString("latin1", 0, 1), body: prependHead(head, iterator), abandon };
}

/**
 * The number of received pieces that are joined into one. Storing a piece of one byte costs a hundred times its size.
 */
const PIECES_MAX = 1_024;

/**
 * Reads a whole body as text. Returns undefined if the body has more than `bytesMax` bytes. Without `bytesMax` the
 * source of the body must limit its size.
 */
export async function readWholeText(body: AsyncIterable<Uint8Array>): Promise<string>;
export async function readWholeText(
  body: AsyncIterable<Uint8Array>,
  bytesMax: number,
): Promise<string | undefined>;
export async function readWholeText(
  body: AsyncIterable<Uint8Array>,
  bytesMax = Number.POSITIVE_INFINITY,
): Promise<string | undefined> {
  const joined: Uint8Array[] = [];
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes > bytesMax) return undefined;
    pieces.push(piece);
    if (pieces.length === PIECES_MAX) joined.push(Buffer.concat(pieces.splice(0)));
  }
  return new TextDecoder().decode(Buffer.concat([...joined, ...pieces]));
}

/**
 * Puts the piece that was already read in front of the rest of the body. Returns a plain iterator, because each async
 * generator through which a token passes delays it by several microtasks.
 */
function prependHead(head: Uint8Array, iterator: AsyncIterator<Uint8Array>): BodyIterator {
  let isHeadPending = head.length > 0;
  const body: BodyIterator = {
    next: () => {
      if (!isHeadPending) return iterator.next();
      isHeadPending = false;
      return Promise.resolve({ done: false, value: head });
    },
    return: async () => {
      await iterator.return?.();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]: () => body,
  };
  return body;
}

/** Removes leading white space and a byte order mark. */
function withoutBlanks(bytes: Buffer): Buffer {
  const blanks = /^(?:\xEF\xBB\xBF)?[\t\n\v\f\r ]*/.exec(bytes.toString("latin1"));
  return bytes.subarray(blanks?.[0].length ?? 0);
}

function isPartOfMark(bytes: Buffer): boolean {
  return /^\xEF\xBB?$/.test(bytes.toString("latin1", 0, 3));
}
