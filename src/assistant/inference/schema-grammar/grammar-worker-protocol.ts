import type { GrammarLayout, GrammarText } from "./compile-schema.ts";

/** A request to the grammar thread. Schemas are sent as JSON text. */
export type GrammarRequest =
  | { readonly type: "compile"; readonly schema: string }
  | { readonly type: "layout"; readonly layout: GrammarLayout }
  | { readonly type: "validate"; readonly schema: string; readonly document: unknown };

export type GrammarAnswer =
  /** Reports that the thread is loaded and accepts requests. */
  | {
      readonly type: "ready";
      /** The operating system's id of the compiler thread, needed to measure its CPU time; undefined without /proc. */
      readonly thread: number | undefined;
    }
  | { readonly type: "grammar"; readonly text: GrammarText }
  | { readonly type: "problems"; readonly problems: readonly string[] }
  /** In the answer to a request of type `layout`, `param` is the name of the schema that cannot be compiled. */
  | { readonly type: "refused"; readonly message: string; readonly param: string | undefined }
  /** The compiler failed because of a bug; `message` is only for the log. */
  | { readonly type: "failed"; readonly message: string };
