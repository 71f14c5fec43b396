import { createHash, type Hash } from "node:crypto";

export interface Digests {
  /** Both hexadecimal. */
  readonly sha256: string;
  /** As git names a blob of these bytes; null where nobody asked for it. */
  readonly gitBlob: string | null;
}

/** Which digests of a file are wanted. */
export interface DigestRequest {
  /** git hashes the size before the bytes, so it has to be known first; null: no such digest is wanted. */
  readonly gitBlobBytes: number | null;
}

export class FileDigest {
  readonly #sha256: Hash = createHash("sha256");
  readonly #gitBlob: Hash | undefined;

  constructor(request: DigestRequest) {
    if (request.gitBlobBytes === null) return;
    this.#gitBlob = createHash("sha1").update(`blob ${request.gitBlobBytes}\0`);
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
