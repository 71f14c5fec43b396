import type { LlamaServer } from "./llama-server.ts";

/** llama.cpp reads pieces of 64 and more tokens with another kernel, which rounds differently. */
const WIDE_PIECE = 128;
const NARROW_PIECE_MAX = 60;
/** llama.cpp multiplies this number of rows together if the weights are repacked. */
const GROUP = 4;

/**
 * Sends a prompt so that llama-server reads it in the pieces in which Berth reads it: wide pieces, then narrow ones,
 * and the last token alone. Otherwise the logprobs of the two would differ by some hundredths. Each request without
 * tokens to predict only reads what is new. Returns the answer to the last request.
 */
export async function readInPieces<Answer>(
  server: LlamaServer,
  tokens: readonly number[],
  request: object,
): Promise<Answer> {
  let read = 0;
  for (const end of pieceEnds(tokens.length - 1)) {
    const prompt = tokens.slice(0, end);
    const piece = { prompt, n_predict: 0, cache_prompt: read > 0, id_slot: 0 };
    await expectRead(server, piece, end - read);
    read = end;
  }
  return await expectRead<Answer>(
    server,
    { ...request, prompt: tokens, cache_prompt: read > 0, id_slot: 0 },
    tokens.length - read,
  );
}

/** Returns the ends of the pieces of a prompt whose first `length` tokens are read before its last token. */
function pieceEnds(length: number): readonly number[] {
  const ends: number[] = [];
  for (let end = 0; end < length; ) {
    const inBlock = end % WIDE_PIECE;
    const left = Math.min(length - end, WIDE_PIECE - inBlock);
    if (inBlock === 0 && left === WIDE_PIECE) end += WIDE_PIECE;
    // A token that is read alone rounds differently, so none is left alone.
    else if (left === NARROW_PIECE_MAX + 1) end += NARROW_PIECE_MAX - GROUP;
    else end += Math.min(left, NARROW_PIECE_MAX);
    ends.push(end);
  }
  return ends;
}

async function expectRead<Answer>(
  server: LlamaServer,
  request: object,
  tokens: number,
): Promise<Answer> {
  const answer = await server.post<Answer & { readonly timings: { readonly prompt_n: number } }>(
    "/completion",
    request,
  );
  const { prompt_n: read } = answer.timings;
  if (read !== tokens) throw new Error(`llama-server read ${read} tokens in place of ${tokens}`);
  return answer;
}
