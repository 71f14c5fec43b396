import { randomBytes } from "node:crypto";

/** A form of a JSON part and a file that is sent as it comes, without a copy of it anywhere. */
export function createStreamedForm(
  config: unknown,
  source: AsyncIterable<Uint8Array>,
): { readonly contentType: string; readonly stream: AsyncIterable<Uint8Array> } {
  const boundary = `berth-${randomBytes(16).toString("hex")}`;
  const part = (disposition: string, type: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: ${type}\r\n\r\n`;
  async function* body(): AsyncGenerator<Uint8Array> {
    // First, so that the server can say what is wrong with it before the file has come.
    yield Buffer.from(`${part('name="config"', "text/plain")}${JSON.stringify(config)}\r\n`);
    yield Buffer.from(part('name="source"; filename="source.tar.gz"', "application/gzip"));
    yield* source;
    yield Buffer.from(`\r\n--${boundary}--\r\n`);
  }
  return { contentType: `multipart/form-data; boundary=${boundary}`, stream: body() };
}
