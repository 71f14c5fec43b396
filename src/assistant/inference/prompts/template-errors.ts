import { AssistantError } from "../../errors.ts";
import { CompiledTemplate, TemplateRefusal } from "./compiled-template.ts";
import { TimeLimitError } from "./time-limited.ts";

/** Throws AssistantError `model_unusable` where the template cannot be read. */
export function compiledTemplate(source: string): CompiledTemplate {
  try {
    return CompiledTemplate.of(source);
  } catch (error) {
    throw new AssistantError("model_unusable", unreadable(error), { cause: error });
  }
}

/**
 * Runs something of a template. Throws AssistantError `invalid_request` where the template refuses the
 * conversation or fails over it, and `model_unusable` where it does not end, or fails whatever it is given.
 */
export function explained<T>(run: () => T, options: { readonly alwaysFails?: boolean } = {}): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof TemplateRefusal) {
      throw new AssistantError(
        "invalid_request",
        `the model's chat template refuses these messages: ${oneLine(error.message)}`,
        { param: "messages", cause: error },
      );
    }
    if (error instanceof TimeLimitError) {
      throw new AssistantError(
        "model_unusable",
        `the model's chat template ${error.message}; use a file with another template`,
        { cause: error },
      );
    }
    if (options.alwaysFails === true) {
      throw new AssistantError("model_unusable", unreadable(error), { cause: error });
    }
    throw new AssistantError(
      "invalid_request",
      `the model's chat template cannot say these messages: ${oneLine(messageOf(error))}`,
      { param: "messages", cause: error },
    );
  }
}

function unreadable(error: unknown): string {
  return `the model's chat template cannot be read: ${oneLine(messageOf(error))}; use a file with another template`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What a template raises comes from a file of anybody, and may quote what a client wrote: shown in part. */
const SHOWN_MAX = 300;

function oneLine(text: string): string {
  const line = text.replaceAll(/[\s\p{C}]+/gu, " ").trim();
  return line.length <= SHOWN_MAX ? line : `${line.slice(0, SHOWN_MAX)}…`;
}
