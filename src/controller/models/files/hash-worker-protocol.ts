import type { DigestRequest, Digests } from "./file-digest.ts";

/** What the thread that reads and hashes files is asked. Each job is one file, read from its beginning on. */
export type HashRequest =
  | {
      readonly type: "open";
      readonly job: number;
      readonly path: string;
      readonly wanted: DigestRequest;
    }
  /** The first `upTo` bytes of the file are written, and may be read. */
  | { readonly type: "advance"; readonly job: number; readonly upTo: number }
  /** It has `sizeBytes` bytes; the answer is wanted once they are read. */
  | { readonly type: "finish"; readonly job: number; readonly sizeBytes: number }
  | { readonly type: "cancel"; readonly job: number };

export type HashAnswer =
  | { readonly type: "read"; readonly job: number; readonly bytes: number }
  | { readonly type: "digests"; readonly job: number; readonly digests: Digests }
  /** The file could not be read, or is shorter than was said. */
  | { readonly type: "failed"; readonly job: number; readonly message: string };
