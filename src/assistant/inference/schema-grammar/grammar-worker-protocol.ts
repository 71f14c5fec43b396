import type { GrammarLayout, GrammarText } from "./compile-schema.ts";

/** What the compiler's thread is asked. Schemas travel as JSON text. */
export type GrammarRequest =
  | { readonly type: "compile"; readonly schema: string }
  | { readonly type: "layout"; readonly layout: GrammarLayout }
  | { readonly type: "validate"; readonly schema: string; readonly document: unknown };

export type GrammarAnswer =
  /** It is loaded, and takes requests. */
  | {
      readonly type: "ready";
      /** The thread's number in the operating system; undefined where there is no /proc. */
      readonly thread: number | undefined;
    }
  | { readonly type: "grammar"; readonly text: GrammarText }
  | { readonly type: "problems"; readonly problems: readonly string[] }
  /** `param`: the name of the schema in its layout. */
  | { readonly type: "refused"; readonly message: string; readonly param: string | undefined }
  /** A mistake of ours; the message is for the log. */
  | { readonly type: "failed"; readonly message: string };
