import { createHash, type Hash } from "node:crypto";

/** The hexadecimal digests of a whole file. */
export interface Digests {
  readonly sha256: string;
  /** The id that git gives to a blob of these bytes; null if it was not requested. */
  readonly gitBlob: string | null;
}

export interface DigestRequest {
  readonly path: string;
  /** The size of the whole file. Git hashes this size before the content of a blob. */
  readonly sizeBytes: number;
  readonly withGitBlob: boolean;
}

export class FileDigest {
  readonly #sha256: Hash = createHash("sha256");
  readonly #gitBlob: Hash | undefined;

  constructor({ sizeBytes, withGitBlob }: DigestRequest) {
    if (withGitBlob) this.#gitBlob = createHash("sha1").update(`blob ${sizeBytes}\0`);
  }

  update(bytes: Uint8Array): void {
    this.#sha256.update(bytes);
    this.#gitBlob?.update(bytes);
  }

  result(): Digests {
    return {
      sha256: this.#sha256.digest("hex"),
      gitBlob: this.#gitBlob?.digest("hex") ?? null,
    };
  }
}
