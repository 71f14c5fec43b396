import { invalidTree } from "./git-errors.ts";
import type { GitProcess } from "./git-process.ts";

/**
 * Reads objects through `git cat-file --batch`. The caller reads the content of an object before it requests the next
 * one.
 */
export class ObjectBatchReader implements AsyncDisposable {
  readonly #process: GitProcess;
  readonly #output: AsyncGenerator<Buffer, void>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(process: GitProcess) {
    this.#process = process;
    this.#output = process.output();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }

  /** Yields the whole content of a blob in chunks. A caller that stops early has to dispose of the reader. */
  async *readBlob(oid: string): AsyncGenerator<Uint8Array> {
    this.#process.write(`${oid}\n`);
    const [, type, size] = (await this.#readLine()).split(" ");
    if (type !== "blob")
      throw invalidTree(
        "the commit lists an object as a file that is not a file, or that the server omitted",
      );
    let left = Number(size);
    while (left > 0) {
      if (this.#rest.length === 0) await this.#readMore();
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
    await this.#readLine();
  }

  async #readLine(): Promise<string> {
    let end = this.#rest.indexOf(0x0a);
    while (end < 0) {
      await this.#readMore();
      end = this.#rest.indexOf(0x0a);
    }
    const line = this.#rest.toString("utf8", 0, end);
    this.#rest = this.#rest.subarray(end + 1);
    return line;
  }

  async #readMore(): Promise<void> {
    const { done, value } = await this.#output.next();
    if (done) throw invalidTree("an object of the commit is damaged or missing");
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
  }
}
