import { randomBytes } from "node:crypto";

/** Creates a multipart form that consists of a JSON part and a file. The file is streamed. */
export function createStreamedForm(
  config: unknown,
  source: AsyncIterable<Uint8Array>,
): { readonly contentType: string; readonly stream: AsyncIterable<Uint8Array> } {
  const boundary = `berth-${randomBytes(16).toString("hex")}`;
  const part = (disposition: string, type: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: ${type}\r\n\r\n`;
  async function* body(): AsyncGenerator<Uint8Array> {
    // The JSON part is sent first, so that the server can reject it before it has received the file.
    yield Buffer.from(`${part('name="config"', "text/plain")}${JSON.stringify(config)}\r\n`);
    yield Buffer.from(part('name="source"; filename="source.tar.gz"', "application/gzip"));
    yield* source;
    yield Buffer.from(`\r\n--${boundary}--\r\n`);
  }
  return { contentType: `multipart/form-data; boundary=${boundary}`, stream: body() };
}
